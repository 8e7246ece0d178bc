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
  };
}

/**
 * A cache of what is loaded on demand; a key is loaded once at a time.
 *
 * @template T
 * @param {number} budget as in `createCache`
 * @param {(key: string, ...details: any[]) => Promise<T>} load
 * @param {(value: T) => number} sizeOf
 * @param {(value: T) => void} [dispose] as in `createCache`
 */
export function createLoader(budget, load, sizeOf, dispose) {
  const cache = createCache(budget, dispose);
  const pending = new Map();

  async function start(key, details) {
    try {
      const value = await load(key, ...details);
      cache.set(key, value, sizeOf(value));
      return value;
    } finally {
      pending.delete(key);
    }
  }

  return {
    get used() {
      return cache.used;
    },
    /** The value if it is loaded, else undefined. */
    peek: cache.get,
    /** Whether it is loaded or being loaded. */
    has: (key) => cache.has(key) || pending.has(key),
    /** The value, loaded if need be; `load` gets the details. @returns {Promise<T>} */
    get(key, ...details) {
      const value = cache.get(key);
      if (value !== undefined) return Promise.resolve(value);
      if (!pending.has(key)) pending.set(key, start(key, details));
      return pending.get(key);
    },
  };
}

// Derived numbers, computed once for each array: Svelte takes every object for changed at every frame.

/**
 * The same function, which remembers its results for as long as its first argument lives.
 *
 * @template {(object: any, key?: any) => any} Compute any function of an object and a key; results keep its types
 * @param {Compute} compute a pure function
 * @returns {Compute}
 */
export function memoized(compute) {
  const results = new WeakMap();
  const recall = (object, key) => {
    if (!results.has(object)) results.set(object, new Map());
    const known = results.get(object);
    if (!known.has(key)) known.set(key, compute(object, key));
    return known.get(key);
  };
  return /** @type {Compute} */ (recall);
}

/**
 * The same function, which gives the same result again for as long as its arguments are the same.
 *
 * @template R
 * @param {(...args: any[]) => R} compute a pure function
 * @returns {(...args: any[]) => R}
 */
export function latest(compute) {
  const recall = recent(
    (args) => compute(...args),
    (args) => args,
    1,
  );
  return (...args) => recall(args);
}

/**
 * The same function, which remembers its last results.
 *
 * @template T, R
 * @param {(argument: T, dropped?: R) => R} compute `dropped`: the result that is forgotten for the new one, which may reuse it
 * @param {(argument: T) => any[]} keyOf all that the result depends on
 * @param {number} count how many results are kept
 * @returns {(argument: T) => R}
 */
export function recent(compute, keyOf, count) {
  let kept = [];
  return (argument) => {
    const key = keyOf(argument);
    const known = kept.find(
      ({ key: other }) => other.length === key.length && other.every((part, i) => part === key[i]),
    );
    const entry = known ?? { key, result: compute(argument, kept[count - 1]?.result) };
    kept = [entry, ...kept.filter((other) => other !== entry)].slice(0, count);
    return entry.result;
  };
}
