// Geometry of dataset examples: cells of a grid over the layer, each a patch of an observation.
import { formatNumber } from "../../kit/shell/format.js";

/**
 * The square of an observation that a cell shows, in the observation's pixels; it may reach outside.
 *
 * @param {{height: number, width: number}} layer
 * @param {{height: number, width: number}} observation
 * @param {number[]} centre row and column, in layer positions
 */
export function patchRectangle(layer, observation, [row, column], expand) {
  const unitY = observation.height / layer.height;
  const unitX = observation.width / layer.width;
  return {
    x: column * unitX - (expand * unitX) / 2,
    y: row * unitY - (expand * unitY) / 2,
    width: expand * unitX,
    height: expand * unitY,
  };
}

/** The part of a patch that lies inside the observation, and where that goes in a cell of the given size. */
export function clipPatch(patch, observation, cellWidth, cellHeight) {
  const x0 = Math.max(0, patch.x);
  const y0 = Math.max(0, patch.y);
  const x1 = Math.min(observation.width, patch.x + patch.width);
  const y1 = Math.min(observation.height, patch.y + patch.height);
  if (x1 <= x0 || y1 <= y0) return null;
  const scaleX = cellWidth / patch.width;
  const scaleY = cellHeight / patch.height;
  return {
    source: { x: x0, y: y0, width: x1 - x0, height: y1 - y0 },
    target: {
      x: (x0 - patch.x) * scaleX,
      y: (y0 - patch.y) * scaleY,
      width: (x1 - x0) * scaleX,
      height: (y1 - y0) * scaleY,
    },
  };
}

/** Where a cell of the atlas is: which image, and its rectangle there. */
export function atlasCell(atlas, cell) {
  const at = cell % atlas.per_image;
  return {
    name: atlas.images[Math.floor(cell / atlas.per_image)],
    x: (at % atlas.columns) * atlas.width,
    y: Math.floor(at / atlas.columns) * atlas.height,
  };
}

// Drawing of dataset examples on a canvas.

/** The grid of one channel: {rows, columns, index, opacity, position}, from a features chunk. */
export function featureGrid(arrays, density, channel) {
  const pick = (prefix) =>
    Object.entries(arrays).find(([key]) => key.startsWith(prefix) && Number(key.slice(prefix.length)) === density)?.[1];
  const [index, opacity, position] = ["index.", "opacity.", "position."].map(pick);
  if (!index) return null;
  const [, rows, columns] = index.shape;
  const size = rows * columns;
  const of = ({ data }) => data.subarray(channel * size, (channel + 1) * size);
  return { rows, columns, index: of(index), opacity: of(opacity), position: position.data };
}

/** Names of the atlas images that a grid needs. */
export function neededImages(grid, atlas) {
  const names = new Set();
  for (const cell of grid.index) if (cell >= 0) names.add(atlasCell(atlas, cell).name);
  return [...names];
}

/**
 * Draw all cells, weak ones transparent.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {object} scene {grid, layer, atlas, expand, size: {width, height}, loaded: Map of name to image}
 */
export function drawCells(context, scene) {
  for (let cell = 0; cell < scene.grid.rows * scene.grid.columns; cell += 1) {
    drawCell(context, scene, cell, scene.grid.opacity[cell] / 255);
  }
  context.globalAlpha = 1;
}

/** Draw one cell with the given opacity. */
export function drawCell(context, scene, cell, alpha) {
  const { grid, layer, atlas, expand, size, loaded } = scene;
  const observation = grid.index[cell];
  if (observation < 0 || alpha === 0) return;
  const { name, x, y } = atlasCell(atlas, observation);
  const image = loaded.get(name);
  if (!image) return;
  const box = cellBox(grid, size, cell);
  const centre = [grid.position[2 * cell], grid.position[2 * cell + 1]];
  const clip = clipPatch(patchRectangle(layer, atlas, centre, expand), atlas, box.width, box.height);
  context.globalAlpha = alpha;
  if (!clip || clip.target.width < box.width || clip.target.height < box.height) drawChecks(context, box);
  if (!clip) return;
  const { source, target } = clip;
  context.drawImage(
    image,
    x + source.x,
    y + source.y,
    source.width,
    source.height,
    box.x + target.x,
    box.y + target.y,
    target.width,
    target.height,
  );
}

/** Where a cell lies on the canvas; whole pixels, so that neighbours meet. */
export function cellBox(grid, size, cell) {
  const row = Math.floor(cell / grid.columns);
  const column = cell % grid.columns;
  const x = Math.round((column * size.width) / grid.columns);
  const y = Math.round((row * size.height) / grid.rows);
  return {
    x,
    y,
    width: Math.round(((column + 1) * size.width) / grid.columns) - x,
    height: Math.round(((row + 1) * size.height) / grid.rows) - y,
  };
}

/** The cell at a point of the canvas, or -1. */
export function cellAt(grid, size, x, y) {
  const column = Math.floor((x * grid.columns) / size.width);
  const row = Math.floor((y * grid.rows) / size.height);
  const inside = column >= 0 && column < grid.columns && row >= 0 && row < grid.rows;
  return inside ? row * grid.columns + column : -1;
}

/** What is outside an observation: light squares. */
function drawChecks(context, { x, y, width, height }) {
  context.fillStyle = "#ffffff";
  context.fillRect(x, y, width, height);
  context.fillStyle = "#d4d4d4";
  const side = Math.max(2, Math.round(width / 8));
  for (let dy = 0; dy < height; dy += side) {
    for (let dx = (dy / side) % 2 ? side : 0; dx < width; dx += 2 * side) {
      context.fillRect(x + dx, y + dy, Math.min(side, width - dx), Math.min(side, height - dy));
    }
  }
}

/**
 * The same level with and without a feature, as Animation.svelte takes it: a still of the moment where the two part, and the
 * clip.
 */
export const clipProperties = ({ layer, feature, episode, step, lost, image, still }) => ({
  image,
  still,
  label: `Layer ${layer}, feature ${feature}: episode ${episode}, the same play up to step ${step}; without the feature, ${formatNumber(lost, 3)} of the return is lost`,
  sides: ["unedited", `without feature ${feature}`],
  testid: "clip",
});
