// Animated PNG (W3C PNG, third edition) of 8-bit RGBA frames.

const SIGNATURE = [137, 80, 78, 71, 13, 10, 26, 10];

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k += 1) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});

export function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

function chunk(type, body) {
  const out = new Uint8Array(12 + body.length);
  const view = new DataView(out.buffer);
  view.setUint32(0, body.length);
  out.set(new TextEncoder().encode(type), 4);
  out.set(body, 8);
  view.setUint32(8 + body.length, crc32(out.subarray(4, 8 + body.length)));
  return out;
}

/** Bytes of big-endian numbers, each of the given size. */
function fields(sizes, values) {
  const view = new DataView(new ArrayBuffer(sizes.reduce((sum, size) => sum + size, 0)));
  let at = 0;
  sizes.forEach((size, i) => {
    view[`setUint${8 * size}`](at, values[i]);
    at += size;
  });
  return new Uint8Array(view.buffer);
}

async function deflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Each row preceded by its filter: none. */
function scanlines(rgba, width, height) {
  const out = new Uint8Array(height * (width * 4 + 1));
  for (let y = 0; y < height; y += 1)
    out.set(rgba.subarray(y * width * 4, (y + 1) * width * 4), y * (width * 4 + 1) + 1);
  return out;
}

/**
 * @param {Iterable<Uint8Array | Uint8ClampedArray>} frames RGBA bytes of each frame
 * @param {{width: number, height: number, fps: number}} options
 * @returns {Promise<Blob>} a PNG that plays for ever
 */
export async function encodeApng(frames, { width, height, fps }) {
  const list = [...frames];
  const header = fields([4, 4, 1, 1, 1, 1, 1], [width, height, 8, 6, 0, 0, 0]);
  const parts = [Uint8Array.from(SIGNATURE), chunk("IHDR", header), chunk("acTL", fields([4, 4], [list.length, 0]))];
  let sequence = 0;
  for (const [index, rgba] of list.entries()) {
    const control = [sequence++, width, height, 0, 0, 100, Math.round(fps * 100), 0, 0];
    parts.push(chunk("fcTL", fields([4, 4, 4, 4, 4, 2, 2, 1, 1], control)));
    const data = await deflate(scanlines(rgba, width, height));
    if (index === 0) {
      parts.push(chunk("IDAT", data));
    } else {
      const body = new Uint8Array(4 + data.length);
      new DataView(body.buffer).setUint32(0, sequence++);
      body.set(data, 4);
      parts.push(chunk("fdAT", body));
    }
  }
  parts.push(chunk("IEND", new Uint8Array(0)));
  return new Blob(parts, { type: "image/png" });
}
