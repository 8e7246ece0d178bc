import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import zlib from "node:zlib";
import { inBackground } from "./background.js";
import { createCache } from "./cache.js";
import { createChunks } from "./chunks.js";
import { decodeChunk, splitArrays } from "./decode.js";
import { opaque } from "./frames.js";

const HEADER = {
  arrays: {
    codes: { dtype: "int8", shape: [3, 2], filter: "delta" },
    scales: { dtype: "float32", shape: [2] },
    png: { dtype: "bytes", shape: [3] },
  },
};

function packed() {
  const bytes = Buffer.alloc(6 + 8 + 3);
  Int8Array.of(100, -5, 50, 5, 1, 0).forEach((value, i) => bytes.writeInt8(value, i));
  bytes.writeFloatLE(1.5, 6);
  bytes.writeFloatLE(-2, 10);
  bytes.set([7, 8, 9], 14);
  return zlib.deflateSync(bytes).toString("base64");
}

test("a chunk's arrays are unpacked, unaligned ones and deltas modulo 256 too", async () => {
  const { codes, scales, png } = await decodeChunk(HEADER, packed());
  assert.deepEqual(Array.from(codes.data), [100, -5, -106, 0, -105, 0]);
  assert.deepEqual(codes.shape, [3, 2]);
  assert.deepEqual(Array.from(scales.data), [1.5, -2]);
  assert.deepEqual(Array.from(png.data), [7, 8, 9]);
});

test("the last axis may have been stored first", () => {
  const bytes = Uint8Array.of(1, 9, 2, 250, 3, 0); // [1, 2, 3], [10, 252, 3]
  const entry = { dtype: "int8", shape: [2, 1, 3] };
  const read = (filter) =>
    Array.from(splitArrays({ arrays: { a: { ...entry, filter } } }, bytes.slice().buffer).a.data);
  assert.deepEqual(read("planes"), [1, 2, 3, 9, -6, 0]);
  assert.deepEqual(read("delta planes"), [1, 2, 3, 10, -4, 3]);
  assert.throws(() => read("zigzag"), /unknown filter zigzag/);
});

test("arrays that do not fit their bytes are refused", () => {
  const header = { arrays: { a: { dtype: "int16", shape: [4] } } };
  assert.throws(() => splitArrays(header, new ArrayBuffer(6)), /too short for a/);
  assert.throws(() => splitArrays(header, new ArrayBuffer(10)), /2 bytes too long/);
  assert.throws(
    () => splitArrays({ arrays: { a: { dtype: "object", shape: [1] } } }, new ArrayBuffer(8)),
    /unknown dtype/,
  );
});

test("a cache drops what was used longest ago, but never the newest", () => {
  const dropped = [];
  const cache = createCache(10, (value) => dropped.push(value));
  cache.set("a", "A", 4);
  cache.set("b", "B", 4);
  cache.get("a");
  cache.set("c", "C", 4);
  assert.deepEqual(dropped, ["B"]);
  cache.set("d", "D", 50);
  assert.deepEqual(dropped, ["B", "A", "C"]);
  assert.equal(cache.get("d"), "D");
  assert.equal(cache.used, 50);
});

/** A document whose scripts do what `files` says. */
function fakeDocument(files, scope) {
  const runs = [];
  const createElement = () => ({ remove() {} });
  const append = (script) => {
    runs.push(script.src);
    queueMicrotask(() => {
      const file = files[script.src];
      if (!file) return script.onerror();
      if (file.header) scope.rlClarityChunk(script.src, file.header, file.base64);
      script.onload();
    });
  };
  return { runs, createElement, head: { append }, querySelector: () => null };
}

test("chunks are loaded once, and failures are named", async () => {
  globalThis.CSS ??= { escape: (text) => text };
  const scope = {};
  const good = { header: HEADER, base64: packed() };
  const document = fakeDocument(
    { "a/good.js": good, "a/empty.js": {}, "a/bad.js": { header: HEADER, base64: "AAAA" } },
    scope,
  );
  const chunks = createChunks({ document, scope, missing: ["a/later.js"] });
  assert.equal(chunks.peek("a/good.js"), undefined);
  const [first, second] = await Promise.all([chunks.get("a/good.js"), chunks.get("a/good.js")]);
  assert.equal(first, second);
  assert.equal(chunks.peek("a/good.js"), first);
  assert.deepEqual(document.runs, ["a/good.js"]);
  await assert.rejects(chunks.get("a/none.js"), { message: "a/none.js is missing" });
  await assert.rejects(chunks.get("a/empty.js"), { message: "a/empty.js is damaged" });
  await assert.rejects(chunks.get("a/bad.js"), { message: "a/bad.js is damaged" });
  await assert.rejects(chunks.get("a/later.js"), { message: "a/later.js is not computed yet" });
  assert.ok(!document.runs.includes("a/later.js"));
  const before = document.runs.length;
  await assert.rejects(chunks.get("a/none.js"));
  assert.equal(document.runs.length, before, "a failure is remembered");
  chunks.retry();
  await assert.rejects(chunks.get("a/none.js"));
  assert.equal(document.runs.length, before + 1);
});

/** What a worker does, on this thread: `broken` ones fail to start. */
function fakeWorkers(t, broken = false) {
  const before = { Worker: globalThis.Worker, createObjectURL: URL.createObjectURL };
  URL.createObjectURL = (blob) => blob;
  globalThis.Worker = class {
    constructor(blob) {
      this.scope = blob.text().then((text) => {
        if (broken) return this.onerror({ preventDefault() {} });
        const answer = (data) => this.onmessage({ data });
        return new Function("postMessage", `let onmessage; ${text} return onmessage;`)(answer);
      });
    }
    postMessage(data) {
      this.scope.then((serve) => serve?.({ data: structuredClone(data) }));
    }
  };
  t.after(() => Object.assign(globalThis, { Worker: before.Worker }));
  t.after(() => Object.assign(URL, { createObjectURL: before.createObjectURL }));
}

test("work in the background gives what it gives here; its errors come back; without workers it is done here", async (t) => {
  const source =
    "async (task) => { if (task < 0) throw new RangeError('below'); return new Uint8Array([task]).buffer; }";
  const here = async (task) => Uint8Array.of(task, task).buffer;
  const bytes = async (promise) => Array.from(new Uint8Array(await promise));
  assert.deepEqual(await bytes(inBackground(source, here)(3)), [3, 3]);
  fakeWorkers(t);
  const run = inBackground(source, here);
  assert.deepEqual(await Promise.all([bytes(run(1)), bytes(run(2))]), [[1], [2]]);
  await assert.rejects(run(-1), /below/);
});

test("where a worker cannot start, what waits for it is done here", async (t) => {
  fakeWorkers(t, true);
  const run = inBackground("null", async (task) => task + 1);
  assert.deepEqual(await Promise.all([run(1), run(2)]), [2, 3]);
});

test("frames of pixels are gray or in color, and opaque", () => {
  const gray = { data: Uint8Array.of(1, 2, 3, 4), shape: [2, 1, 2, 1] };
  assert.deepEqual([...opaque(gray, 1)], [3, 3, 3, 255, 4, 4, 4, 255]);
  const color = { data: Uint8Array.of(0, 0, 0, 7, 8, 9), shape: [2, 1, 1, 3] };
  assert.deepEqual([...opaque(color, 1)], [7, 8, 9, 255]);
});
