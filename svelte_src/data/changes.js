// Changes between two JSON values, as a server sends them (rl_clarity/viewer/changes.py).

/**
 * The value after a change. What has not changed is the same object as before.
 *
 * @param {any} before
 * @param {{value?: any, keys?: Object<string, any>, removed?: string[], length?: number, items?: Object<string, any>}} change
 */
export function applyChanges(before, change) {
  if (change.keys) {
    const kept = Object.entries(before).filter(([key]) => !change.removed?.includes(key));
    const changed = Object.entries(change.keys).map(([key, one]) => [key, applyChanges(before[key], one)]);
    return Object.fromEntries([...kept, ...changed]);
  }
  if (change.items) {
    const list = before.slice(0, change.length);
    for (const [index, one] of Object.entries(change.items)) list[index] = applyChanges(before[index], one);
    return list;
  }
  return change.value;
}
