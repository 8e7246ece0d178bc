// Hotkeys: what each does, in the order the help shows them.

export const KEYS = [
  { keys: ["ArrowLeft"], show: "\u2190", action: "back", text: "one step back, or play backwards" },
  { keys: ["ArrowRight"], show: "\u2192", action: "forward", text: "one step forward, or play forwards" },
  { keys: [" "], show: "space", action: "toggle", text: "play or pause" },
  { keys: ["Home"], show: "Home", action: "start", text: "first frame" },
  { keys: ["End"], show: "End", action: "end", text: "last frame" },
  { keys: ["[", "]"], show: "[ ]", action: "trajectory", text: "previous or next trajectory", letter: true },
  { keys: [",", "."], show: ", .", action: "layer", text: "previous or next layer", letter: true },
  {
    keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
    show: "1 \u2013 9",
    action: "channel",
    text: "show or hide a channel",
    letter: true,
  },
  { keys: ["0"], show: "0", action: "channels", text: "show all channels", letter: true },
  { keys: ["r"], show: "r", action: "residual", text: "show or hide the residual", letter: true },
  { keys: ["b"], show: "b", action: "combined", text: "positive and negative in one picture", letter: true },
  { keys: ["o"], show: "o", action: "overlay", text: "over the observation, or alone", letter: true },
  { keys: ["f"], show: "f", action: "find", text: "find frames", letter: true },
  { keys: ["n"], show: "n", action: "notes", text: "notes", letter: true },
  { keys: ["t"], show: "t", action: "trust", text: "what made this page, and how exact it is", letter: true },
  { keys: ["e"], show: "e", action: "export", text: "export", letter: true },
  { keys: ["c"], show: "c", action: "link", text: "copy a link to what is shown", letter: true },
  { keys: ["z", "u"], show: "u", action: "undo", text: "undo (also Ctrl Z)", letter: true },
  { keys: ["Z", "y"], show: "y", action: "redo", text: "redo (also Ctrl Shift Z)", letter: true },
  { keys: ["?"], show: "?", action: "help", text: "this help", letter: true },
  { keys: ["Escape"], show: "Esc", action: "close", text: "close what is open at the side" },
];

const TYPING = "input:not([type=checkbox]):not([type=radio]):not([type=button]), select, textarea, [contenteditable]";
const PRESSING = "button, a[href], summary, input[type=checkbox], input[type=radio]";

/**
 * The action of a key press, or null: while typing, or where the focused control uses the key itself.
 *
 * @param {KeyboardEvent} event
 * @param {boolean} letters whether single letters are on
 */
export function actionOf(event, letters = true) {
  const { key, target } = event;
  if (event.defaultPrevented || event.altKey) return null;
  if (event.ctrlKey || event.metaKey) return chord(event);
  const entry = KEYS.find(({ keys }) => keys.includes(key));
  if (!entry || (entry.letter && !letters)) return null;
  if (entry.action === "close") return { action: "close", key };
  if (target?.closest?.(TYPING)) return null;
  if (key === " " && target?.closest?.(PRESSING)) return null;
  return { action: entry.action, key };
}

function chord({ key, shiftKey, target }) {
  if (key.toLowerCase() !== "z" && key.toLowerCase() !== "y") return null;
  if (target?.closest?.(TYPING)) return null;
  return { action: shiftKey || key.toLowerCase() === "y" ? "redo" : "undo", key };
}
