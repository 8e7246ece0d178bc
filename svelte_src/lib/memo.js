// Derived numbers, computed once for each array: Svelte takes every object for changed at every frame.

/**
 * The same function, which remembers its results for as long as its first argument lives.
 *
 * @template {object} T
 * @template K, R
 * @param {(object: T, key?: K) => R} compute a pure function
 * @returns {(object: T, key?: K) => R}
 */
export function memoized(compute) {
  const results = new WeakMap();
  return (object, key) => {
    if (!results.has(object)) results.set(object, new Map());
    const known = results.get(object);
    if (!known.has(key)) known.set(key, compute(object, key));
    return known.get(key);
  };
}

/**
 * The same function, which gives the same result again for as long as its arguments are the same.
 *
 * @template R
 * @param {(...args: any[]) => R} compute a pure function
 * @returns {(...args: any[]) => R}
 */
export function latest(compute) {
  let before = null;
  let result;
  return (...args) => {
    if (!before || args.length !== before.length || args.some((arg, i) => arg !== before[i])) {
      result = compute(...args);
      before = args;
    }
    return result;
  };
}
