// Decodes PNGs. Making a Blob holds the calling thread up for a millisecond, so what is not needed yet goes to a worker.

const WORKER = `onmessage = async ({ data }) => {
  for (const { id, bytes } of data) {
    try {
      const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
      postMessage({ id, bitmap }, [bitmap]);
    } catch (error) {
      postMessage({ id, problem: String(error) });
    }
  }
};`;

export function createDecoder() {
  const waiting = new Map();
  let unsent = [];
  let worker;
  let count = 0;

  /** The worker, or null where there can be none. */
  function started() {
    if (worker !== undefined) return worker;
    try {
      worker = new Worker(URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })));
      worker.onmessage = ({ data: { id, bitmap, problem } }) => {
        const { resolve, reject } = waiting.get(id);
        waiting.delete(id);
        if (bitmap) resolve(bitmap);
        else reject(new Error(problem));
      };
      worker.onerror = (event) => {
        event.preventDefault();
        worker = null;
        for (const { bytes, resolve } of waiting.values()) resolve(decodeHere(bytes));
        waiting.clear();
      };
    } catch {
      worker = null;
    }
    return worker;
  }

  function send() {
    const batch = unsent;
    unsent = [];
    worker?.postMessage(
      batch,
      batch.map(({ bytes }) => bytes.buffer),
    );
  }

  return {
    /** @param {Uint8Array} bytes @param {boolean} [ahead] not needed yet @returns {Promise<ImageBitmap>} */
    decode(bytes, ahead = false) {
      if (!ahead || !started()) return decodeHere(bytes);
      return new Promise((resolve, reject) => {
        const id = (count += 1);
        waiting.set(id, { bytes, resolve, reject });
        if (!unsent.length) queueMicrotask(send);
        unsent.push({ id, bytes: bytes.slice() });
      });
    },
  };
}

const decodeHere = (bytes) => createImageBitmap(new Blob([bytes], { type: "image/png" }));
