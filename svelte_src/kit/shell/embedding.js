// A page in a frame and the window around it: one clock, and, where that window shows two pages, one scale and the same colors
// (docs/page-format.md, "Embedding"). Documents opened from files have no origin to check: only windows are compared, and
// only numbers, colors and texts are read.

const [CLOCK, BESIDE, REPORT] = ["clock", "beside", "report"];
const COLOR = /^#[0-9a-f]{6}$/i;

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

/**
 * What a page is to have in common with the one beside it.
 *
 * @typedef {object} Beside
 * @property {Record<string, number[]>} scales ranges [low, high] of images and bars of the page beside it, by what they show
 * @property {Record<string, string[]>} colors of features, by the slug of their layer
 */

/** @param {Beside} beside */
export const besideMessage = ({ scales, colors }) => ({ rlClarity: BESIDE, scales, colors });

/** That of a message, without what is damaged; null if it has another kind. @returns {Beside | null} */
function besideIn({ data }) {
  if (data?.rlClarity !== BESIDE) return null;
  return { scales: kept(data.scales, isRange), colors: kept(data.colors, isColors) };
}

const isRange = (range) => Array.isArray(range) && range.length === 2 && range.every(Number.isFinite);
const isColors = (list) => Array.isArray(list) && list.every((color) => COLOR.test(color));

const kept = (values, valid) => Object.fromEntries(Object.entries(values ?? {}).filter(([, value]) => valid(value)));

/** The range of a scale on a page and on the one beside it. @param {Beside | null | undefined} beside */
export function commonRange(beside, key, [low, high]) {
  const [least, most] = beside?.scales[key] ?? [low, high];
  return [Math.min(low, least), Math.max(high, most)];
}

/**
 * What a page shows at its step, for the window around it.
 *
 * @typedef {object} Report
 * @property {string} layer slug; "" without layers
 * @property {string} layerName
 * @property {string} output id
 * @property {string} outputName
 * @property {number | null} value of the output
 * @property {number[] | null} policy probability of each action
 * @property {string[]} actions
 * @property {number[] | null} attribution net attribution of each feature
 * @property {number[] | null} lost what the output loses without each feature, at the last step where it was measured
 * @property {number} lostFrame that step; -1 without one
 * @property {Record<string, number[]>} scales as of `Beside`, those of the page alone
 * @property {Record<string, string[]>} colors of the features of each layer
 */

/** That of a message, without what is damaged; null if it has another kind. @returns {Report | null} */
export function reportIn({ data }) {
  if (data?.rlClarity !== REPORT) return null;
  const texts = ["layer", "layerName", "output", "outputName"].map((key) => [key, String(data[key] ?? "")]);
  const lists = ["policy", "attribution", "lost"].map((key) => [key, isNumbers(data[key]) ? data[key] : null]);
  return /** @type {Report} */ ({
    ...Object.fromEntries([...texts, ...lists]),
    value: Number.isFinite(data.value) ? data.value : null,
    lostFrame: Number.isInteger(data.lostFrame) ? data.lostFrame : -1,
    actions: Array.isArray(data.actions) ? data.actions.map(String) : [],
    scales: kept(data.scales, isRange),
    colors: kept(data.colors, isColors),
  });
}

const isNumbers = (list) => Array.isArray(list) && list.every(Number.isFinite);

/**
 * Set a page's clock as the window around it says, and tell it of other changes from its first message on. A page that can be
 * compared also takes over scales and colors, and from then on reports what it shows.
 */
export function followParent({ clock, partner, report }) {
  const { parent } = window;
  if (parent === window) return () => {};
  const post = (message) => parent.postMessage(message, "*");
  let receiving = false;
  let unsubscribe = null;
  let stopReport = null;
  let known = null;

  function send(now) {
    if (receiving || (now.episode === known.episode && now.frame === known.frame)) return;
    known = now;
    post(messageOf(now));
  }

  function receive(event) {
    if (event.source !== parent) return;
    const other = report && besideIn(event);
    if (other) {
      partner.set(other);
      stopReport ??= report.subscribe((now) => now && post({ rlClarity: REPORT, ...now }));
    }
    const time = timeIn(event);
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
    stopReport?.();
  };
}
