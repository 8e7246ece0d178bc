// Runs work that is not needed yet in a worker, so that it does not delay drawing.

const serve = (source) => `const work = ${source};
onmessage = async ({ data }) => {
  for (const { id, task } of data) {
    try {
      const result = await work(task);
      postMessage({ id, result }, [result]);
    } catch (error) {
      postMessage({ id, problem: String(error) });
    }
  }
};`;

/** A server's pages, which have no manifest in their document, do not allow workers: neither does TensorBoard. */
const isAllowed = () => !globalThis.document || document.getElementById("manifest") !== null;

/**
 * @template T, R
 * @param {string} source text of a function that needs nothing around it: (task: T) => Promise<R>, R transferable
 * @param {(task: T) => Promise<R>} here the same on this thread, where there can be no other
 * @returns {(task: T) => Promise<R>}
 */
export function inBackground(source, here) {
  const waiting = new Map();
  let unsent = [];
  let worker;
  let count = 0;

  /** The worker, or null where there can be none. */
  function started() {
    if (worker !== undefined) return worker;
    if (!isAllowed()) return (worker = null);
    try {
      worker = new Worker(URL.createObjectURL(new Blob([serve(source)], { type: "text/javascript" })));
      worker.onmessage = ({ data: { id, result, problem } }) => {
        const { resolve, reject } = waiting.get(id);
        waiting.delete(id);
        if (problem === undefined) resolve(result);
        else reject(new Error(problem));
      };
      worker.onerror = (event) => {
        event.preventDefault();
        worker = null;
        for (const { task, resolve } of waiting.values()) resolve(here(task));
        waiting.clear();
      };
    } catch {
      worker = null;
    }
    return worker;
  }

  function send() {
    worker?.postMessage(unsent);
    unsent = [];
  }

  return (task) => {
    if (!started()) return here(task);
    return new Promise((resolve, reject) => {
      const id = (count += 1);
      waiting.set(id, { task, resolve, reject });
      if (!unsent.length) queueMicrotask(send);
      unsent.push({ id, task });
    });
  };
}
