// Keyboard shortcuts: each with its keys, its action, and what the help says of it. A kind of page brings `keys` of its own.

const PLAYER_KEYS = [
  { keys: ["ArrowLeft"], show: "\u2190", action: "back", text: "one step back, or play backwards" },
  { keys: ["ArrowRight"], show: "\u2192", action: "forward", text: "one step forward, or play forwards" },
  { keys: [" "], show: "space", action: "toggle", text: "play or pause" },
  { keys: ["Home"], action: "start", text: "first frame" },
  { keys: ["End"], action: "end", text: "last frame" },
];

/** Panels that open at the side by a letter. */
export const TOOLS = [
  { keys: ["f"], action: "find", text: "find frames" },
  { keys: ["n"], action: "notes", text: "notes" },
  { keys: ["t"], action: "trust", text: "checks of the results, and how this page was made" },
  { keys: ["e"], action: "export", text: "export" },
  { keys: ["?"], action: "help", text: "this help" },
];

const SHELL_KEYS = [
  { keys: ["c"], action: "link", text: "copy a link to this view" },
  { keys: ["z", "u"], show: "u", action: "undo", text: "undo (also Ctrl Z)" },
  { keys: ["Z", "y"], show: "y", action: "redo", text: "redo (also Ctrl Shift Z)" },
  { keys: ["Escape"], show: "Esc", action: "close", text: "close the panel at the side" },
];

/** All shortcuts of a page, in the order that the help shows them. */
export const allKeys = (own) => [...PLAYER_KEYS, ...own, ...TOOLS, ...SHELL_KEYS];

/** Whether a shortcut is a key that prints something. */
const isLetter = ({ keys: [key] }) => key.length === 1 && key !== " ";

const TYPING = "input:not([type=checkbox]):not([type=radio]):not([type=button]), select, textarea, [contenteditable]";
const PRESSING = "button, a[href], summary, input[type=checkbox], input[type=radio]";

/**
 * The action of a key press, or null: while typing, or where the focused control uses the key itself.
 *
 * @param {object[]} all shortcuts
 * @param {KeyboardEvent & {target: Element | null}} event
 * @param {boolean} letters whether single letters are on
 */
export function actionOf(all, event, letters = true) {
  const { key, target } = event;
  if (event.defaultPrevented || event.altKey) return null;
  if (event.ctrlKey || event.metaKey) return chord(event);
  const entry = all.find(({ keys }) => keys.includes(key));
  if (!entry || (isLetter(entry) && !letters)) return null;
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
