// A cache with a budget: what was used longest ago goes first.

/**
 * @param {number} budget largest sum of sizes that is kept; the newest entry always stays
 * @param {(value: any) => void} [dispose] called with what is dropped
 */
export function createCache(budget, dispose = () => {}) {
  const entries = new Map();
  let used = 0;

  function remove(key) {
    const entry = entries.get(key);
    if (!entry) return;
    entries.delete(key);
    used -= entry.size;
    dispose(entry.value);
  }

  return {
    get used() {
      return used;
    },
    get count() {
      return entries.size;
    },
    has: (key) => entries.has(key),
    get(key) {
      const entry = entries.get(key);
      if (!entry) return undefined;
      entries.delete(key);
      entries.set(key, entry);
      return entry.value;
    },
    set(key, value, size) {
      remove(key);
      entries.set(key, { value, size });
      used += size;
      for (const oldest of entries.keys()) {
        if (used <= budget || oldest === key) break;
        remove(oldest);
      }
    },
    clear() {
      for (const key of [...entries.keys()]) remove(key);
    },
  };
}
