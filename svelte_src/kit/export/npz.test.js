import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeNpz } from "./npz.js";

test("an archive has each array with its type and shape, and the same bytes every time", () => {
  const arrays = {
    "A/rewards": { data: Float32Array.of(1, 2), shape: [2] },
    codes: { data: Uint8Array.of(7, 8, 9, 1), shape: [2, 1, 2] },
  };
  const bytes = encodeNpz(arrays);
  const text = new TextDecoder("latin1").decode(bytes);
  assert.ok(text.startsWith("PK\u0003\u0004"));
  assert.ok(text.includes("A/rewards.npy"));
  assert.match(text, /\{'descr': '<f4', 'fortran_order': False, 'shape': \(2,\), \} *\n/);
  assert.match(text, /'descr': '\|u1', 'fortran_order': False, 'shape': \(2, 1, 2\)/);
  assert.deepEqual(encodeNpz(arrays), bytes);
  const header = text.indexOf("NUMPY") - 1;
  const length = bytes[header + 8] + 256 * bytes[header + 9];
  assert.equal((10 + length) % 64, 0);
  assert.equal(new DataView(bytes.buffer).getFloat32(header + 10 + length + 4, true), 2);
});
