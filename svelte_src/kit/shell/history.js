// Undo and redo over values; changes of the same kind in quick succession are one.

const TOGETHER_MS = 1000;

export function createHistory(present) {
  return { past: [], present, future: [], kind: null, time: -Infinity };
}

/** Record a new present. `kind` names what was changed; the same kind within a second is one entry. */
export function record(history, present, kind, time, limit = 200) {
  const together = kind !== null && kind === history.kind && time - history.time < TOGETHER_MS;
  const past = together ? history.past : [...history.past, history.present].slice(-limit);
  return { past, present, future: [], kind, time };
}

export function undo(history) {
  if (!history.past.length) return history;
  const present = history.past[history.past.length - 1];
  const future = [history.present, ...history.future];
  return { past: history.past.slice(0, -1), present, future, kind: null, time: -Infinity };
}

export function redo(history) {
  if (!history.future.length) return history;
  const [present, ...future] = history.future;
  return { past: [...history.past, history.present], present, future, kind: null, time: -Infinity };
}
