// The clock of a page in a frame and that of the window around it, kept in step by messages (docs/page-format.md,
// "Embedding"). Documents opened from files have no origin to check: only windows are compared, and only numbers are read.

export const CLOCK = "clock";

/** The time in a message, or null. @returns {{episode: number, frame: number} | null} */
export function timeIn({ data }) {
  const { rlClarity, trajectory, frame } = data ?? {};
  const valid = rlClarity === CLOCK && Number.isInteger(trajectory) && Number.isInteger(frame);
  return valid ? { episode: trajectory, frame } : null;
}

export const messageOf = ({ episode, frame }) => ({ rlClarity: CLOCK, trajectory: episode, frame });

export function setClock(clock, { episode, frame }) {
  if (episode === clock.now.episode) clock.toFrame(frame);
  else clock.go({ episode, frame });
}

/** Set a page's clock as the window around it says; from its first message on, tell it of other changes. */
export function followParent({ clock }) {
  const { parent } = window;
  if (parent === window) return () => {};
  let receiving = false;
  let unsubscribe = null;
  let known = null;

  function send(now) {
    if (receiving || (now.episode === known.episode && now.frame === known.frame)) return;
    known = now;
    parent.postMessage(messageOf(now), "*");
  }

  function receive(event) {
    const time = event.source === parent && timeIn(event);
    if (!time) return;
    receiving = true;
    setClock(clock, time);
    known = clock.now;
    unsubscribe ??= clock.subscribe(send);
    receiving = false;
  }

  window.addEventListener("message", receive);
  return () => {
    window.removeEventListener("message", receive);
    unsubscribe?.();
  };
}
