// Marks over images of attribution: the residual, and positions that exceed the scale.

/** Pixels along the longer side of an image of marks, and between lines of the hatch. */
const [SIDE, GAP] = [256, 12];

/**
 * Marks over an image: a hatch in black and white where the residual is strongest, whose opacity is its amount, and a dot at
 * each position that exceeds the scale.
 *
 * @param {{height: number, width: number, residual: Float32Array, clipped: number[]}} image as `composeImage` returns it
 * @param {{rgba: Uint8ClampedArray}} [dropped] marks that are no longer needed, whose memory is used again
 * @returns {{height: number, width: number, rgba: Uint8ClampedArray}} whole pixels for each position
 */
export function drawMarks({ height, width, residual, clipped }, dropped) {
  const size = Math.max(1, Math.round(SIDE / Math.max(height, width)));
  const marks = { height: height * size, width: width * size };
  const bytes = marks.height * marks.width * 4;
  const rgba = dropped?.rgba.length === bytes ? dropped.rgba.fill(0) : new Uint8ClampedArray(bytes);
  function put(x, y, level, alpha) {
    const at = 4 * (y * marks.width + x);
    rgba[at] = rgba[at + 1] = rgba[at + 2] = level;
    rgba[at + 3] = 255 * alpha;
  }
  for (let position = 0; position < residual.length; position += 1) {
    const alpha = residual[position];
    if (alpha === 0) continue;
    const left = size * (position % width);
    const top = size * Math.floor(position / width);
    for (let y = top; y < top + size; y += 1) {
      for (let x = left; x < left + size; x += 1) {
        const phase = (x + y) % GAP;
        if (phase < 5) put(x, y, phase < 2 ? 0 : 255, alpha);
      }
    }
  }
  const radius = Math.max(1, Math.min(5, size / 3));
  for (const position of clipped) {
    const [middleY, middleX] = [Math.floor(position / width) + 0.5, (position % width) + 0.5].map((at) => at * size);
    for (let y = Math.ceil(middleY - radius); y < middleY + radius; y += 1) {
      for (let x = Math.ceil(middleX - radius); x < middleX + radius; x += 1) {
        const distance = Math.hypot(x - middleX, y - middleY);
        if (distance <= radius) put(x, y, distance > radius - 1.5 ? 0 : 255, 1);
      }
    }
  }
  return { ...marks, rgba };
}
