/** What the page calls an action; its number where it has no label. */
export const actionLabel = (actions, index) => actions[index]?.label ?? String(index);

/** All actions as groups: those given, and each other action alone, by their first action. */
export function mergedActions(count, equivalent = []) {
  const rest = Array.from({ length: count }, (_, k) => k).filter((k) => !equivalent.some((group) => group.includes(k)));
  return [...equivalent, ...rest.map((k) => [k])].sort((a, b) => a[0] - b[0]);
}
