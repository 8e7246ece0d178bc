// The bytes of a chunk: base64 of a zlib stream of arrays, described by a header (docs/page-format.md, "Chunks").
import { inBackground } from "./background.js";

const TYPES = {
  uint8: Uint8Array,
  int8: Int8Array,
  bytes: Uint8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  int32: Int32Array,
  float32: Float32Array,
};

/** Its text is run in a worker, as that of `inflate`: it needs nothing around it. @returns {Uint8Array<ArrayBuffer>} */
export function fromBase64(text) {
  if (typeof Uint8Array.fromBase64 === "function") return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Unpack a zlib stream. The stream of a Blob would take twice the time. @returns {Promise<ArrayBuffer>} */
export function inflate(bytes) {
  const { body } = /** @type {{body: ReadableStream}} */ (new Response(bytes));
  return new Response(body.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}

/**
 * Cut a buffer into the arrays of a header.
 *
 * @param {{arrays: Object<string, {dtype: string, shape: number[], filter?: string}>}} header `filter`: names, with spaces between
 * @param {ArrayBuffer} buffer
 * @returns {Record<string, import("../types").NumberArray>}
 */
export function splitArrays(header, buffer) {
  /** @type {Record<string, import("../types").NumberArray>} */
  const arrays = {};
  let offset = 0;
  for (const [name, { dtype, shape, filter }] of Object.entries(header.arrays)) {
    const Type = TYPES[dtype];
    if (!Type) throw new Error(`unknown dtype ${dtype}`);
    const length = shape.reduce((a, b) => a * b, 1);
    const bytes = length * Type.BYTES_PER_ELEMENT;
    if (offset + bytes > buffer.byteLength) throw new Error(`too short for ${name}`);
    const aligned = offset % Type.BYTES_PER_ELEMENT === 0;
    const data = aligned ? new Type(buffer, offset, length) : new Type(buffer.slice(offset, offset + bytes));
    arrays[name] = { data: unfiltered(data, shape, filter), shape };
    offset += bytes;
  }
  if (offset !== buffer.byteLength) throw new Error(`${buffer.byteLength - offset} bytes too long`);
  return arrays;
}

/** Undo the filters of a header, the last one first. */
function unfiltered(stored, shape, filter = "") {
  const filters = filter ? filter.split(" ") : [];
  const unknown = filters.find((name) => name !== "delta" && name !== "planes");
  if (unknown) throw new Error(`unknown filter ${unknown}`);
  const data = filters.includes("planes") ? undoPlanes(stored, shape) : stored;
  if (filters.includes("delta")) undoDelta(data, shape);
  return data;
}

/** The last axis was stored first. */
export function undoPlanes(stored, shape) {
  const depth = shape.at(-1);
  const count = stored.length / depth;
  const data = new stored.constructor(stored.length);
  for (let k = 0, from = 0; k < depth; k += 1) {
    for (let at = k; from < (k + 1) * count; at += depth, from += 1) data[at] = stored[from];
  }
  return data;
}

/** Along the first axis each entry is stored less the one before, modulo 256. */
export function undoDelta(data, shape) {
  const stride = shape[0] ? data.length / shape[0] : 0;
  for (let i = stride; i < data.length; i += 1) data[i] += data[i - stride];
}

const unpack = (base64) => inflate(fromBase64(base64));
const unpackAhead = inBackground(`(base64) => (${inflate})((${fromBase64})(base64))`, unpack);

/**
 * @param {boolean} [early] not needed yet
 * @returns {Promise<Record<string, import("../types").NumberArray>>}
 */
export async function decodeChunk(header, base64, early = false) {
  return splitArrays(header, await (early ? unpackAhead(base64) : unpack(base64)));
}
