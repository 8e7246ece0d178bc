// How an action is drawn: a stick for directions, buttons for the rest.

const DIRECTIONS = { LEFT: [-1, 0], RIGHT: [1, 0], UP: [0, -1], DOWN: [0, 1] };

/** The stick's position and the buttons of an action. @returns {{x: number, y: number, buttons: string[]}} */
export function partsOf({ combo = [] } = {}) {
  const parts = { x: 0, y: 0, buttons: /** @type {string[]} */ ([]) };
  for (const part of combo) {
    const direction = DIRECTIONS[part.toUpperCase()];
    if (direction) [parts.x, parts.y] = [parts.x + direction[0], parts.y + direction[1]];
    else parts.buttons.push(part);
  }
  return parts;
}

/** Whether any action moves a stick, and the buttons that any of them presses, each once. */
export function controlsOf(actions) {
  const all = actions.map(partsOf);
  return {
    stick: all.some(({ x, y }) => x || y),
    buttons: [...new Set(all.flatMap(({ buttons }) => buttons))],
  };
}
