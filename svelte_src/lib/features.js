// Geometry of dataset examples: cells of a grid over the layer, each a patch of an observation.

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

/** Where a cell of the atlas is: which picture, and its rectangle there. */
export function atlasCell(atlas, cell) {
  const at = cell % atlas.per_picture;
  return {
    picture: atlas.pictures[Math.floor(cell / atlas.per_picture)],
    x: (at % atlas.columns) * atlas.width,
    y: Math.floor(at / atlas.columns) * atlas.height,
  };
}
