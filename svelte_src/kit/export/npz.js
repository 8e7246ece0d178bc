// Arrays as a file of NumPy: an uncompressed zip archive of .npy files (format version 1.0).
import { crc32 } from "./apng.js";

const DESCRIPTIONS = new Map(
  /** @type {[Function, string][]} */ ([
    [Uint8Array, "|u1"],
    [Int8Array, "|i1"],
    [Uint16Array, "<u2"],
    [Int16Array, "<i2"],
    [Int32Array, "<i4"],
    [Float32Array, "<f4"],
    [Float64Array, "<f8"],
  ]),
);

const text = (string) => new TextEncoder().encode(string);

/** One array as an .npy file. */
function npy({ data, shape }) {
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const header = `{'descr': '${DESCRIPTIONS.get(data.constructor)}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const length = 64 * Math.ceil((header.length + 11) / 64) - 10; // data begin at a multiple of 64 bytes
  const start = Uint8Array.of(0x93, ...text("NUMPY"), 1, 0, length & 255, length >> 8);
  return joined([
    start,
    text(`${header.padEnd(length - 1)}\n`),
    new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
  ]);
}

function joined(parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Little-endian numbers: [bytes, value] each. */
function fields(list) {
  const view = new DataView(new ArrayBuffer(list.reduce((sum, [size]) => sum + size, 0)));
  let at = 0;
  for (const [size, value] of list) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  return new Uint8Array(view.buffer);
}

/** The first of January 1980: the same arrays give the same bytes. */
const DATE = 33;

/**
 * @param {Record<string, import("../../types").NumberArray>} arrays by name
 * @returns {Uint8Array<ArrayBuffer>} what `numpy.load` reads
 */
export function encodeNpz(arrays) {
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const [key, array] of Object.entries(arrays)) {
    const name = text(`${key}.npy`);
    const body = npy(array);
    const about = [[2, 20], [2, 2048], [2, 0], [2, 0], [2, DATE], [4, crc32(body)], [4, body.length], [4, body.length]]; // prettier-ignore
    const local = joined([fields([[4, 0x04034b50], ...about, [2, name.length], [2, 0]]), name, body]);
    const rest = [[2, name.length], [2, 0], [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]]; // prettier-ignore
    directory.push(joined([fields([[4, 0x02014b50], [2, 20], ...about, ...rest]), name]));
    parts.push(local);
    offset += local.length;
  }
  const entries = joined(directory);
  const count = directory.length;
  const end = [[4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count], [4, entries.length], [4, offset], [2, 0]]; // prettier-ignore
  return joined([...parts, entries, fields(end)]);
}
