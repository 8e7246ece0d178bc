import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import zlib from "node:zlib";
import { crc32, encodeApng } from "./apng.js";

test("an animation is a PNG that every reader opens", async () => {
  assert.equal(crc32(new TextEncoder().encode("IEND")), 0xae426082);
  const frames = [0, 100, 200].map((level) => new Uint8Array(2 * 3 * 4).fill(level));
  const blob = await encodeApng(frames, { width: 3, height: 2, fps: 12 });
  const bytes = Buffer.from(await blob.arrayBuffer());
  const kinds = [];
  const pixels = [];
  for (let at = 8; at < bytes.length;) {
    const size = bytes.readUInt32BE(at);
    const kind = bytes.toString("latin1", at + 4, at + 8);
    const body = bytes.subarray(at + 8, at + 8 + size);
    assert.equal(bytes.readUInt32BE(at + 8 + size), crc32(bytes.subarray(at + 4, at + 8 + size)));
    if (kind === "IDAT") pixels.push(zlib.inflateSync(body)[1]);
    if (kind === "fdAT") pixels.push(zlib.inflateSync(body.subarray(4))[1]);
    kinds.push(kind);
    at += 12 + size;
  }
  assert.deepEqual(kinds, ["IHDR", "acTL", "fcTL", "IDAT", "fcTL", "fdAT", "fcTL", "fdAT", "IEND"]);
  assert.deepEqual(pixels, [0, 100, 200]);
});
