// Clocks say which {episode, frame} is shown and how many steps around it (window). Tracks and players take one; a page may
// have several, which move apart.
import { derived, writable } from "svelte/store";
import { frameAt, stepOf } from "./align.js";

/**
 * A clock of its own.
 *
 * @param {number[]} lengths steps of each episode
 * @param {{episode?: number, frame?: number, window?: number, checkpoint?: string}} [start]
 */
export function createClock(lengths, { checkpoint, ...start } = {}) {
  let now = { episode: 0, frame: 0, window: 256, ...start };
  const store = writable(now);
  const inRange = (value, last) => Math.max(0, Math.min(last, Math.round(value)));
  return clockOf({
    steps: (episode) => lengths[episode],
    checkpoint,
    subscribe: store.subscribe,
    read: () => now,
    change(patch) {
      const episode = inRange(patch.episode ?? now.episode, lengths.length - 1);
      const frame = inRange(patch.frame ?? now.frame, lengths[episode] - 1);
      now = { episode, frame, window: Math.max(16, Math.round(patch.window ?? now.window)) };
      store.set(now);
    },
  });
}

/**
 * A clock over time that something else holds, such as a page's selection.
 *
 * @param {object} time {subscribe, read: () => {episode, frame, window}, change: (patch, kind) => void, steps, checkpoint}; `steps`
 *   are those of an episode; `kind` names changes that are undone together
 */
export function clockOf({ subscribe, read, change, steps, checkpoint = "" }) {
  const clock = {
    subscribe,
    /** The checkpoint whose episodes these are, as in a brush. */
    checkpoint,
    /** The step under the pointer, or null. */
    hovered: writable(null),
    get now() {
      return read();
    },
    /** Steps of an episode. */
    steps: (episode = read().episode) => steps(episode),
    go: ({ episode, frame }) => change({ episode, frame }),
    toFrame: (frame) => change({ frame }, "frame"),
    /** Show fewer steps at a time, or more; no more than there are. */
    zoom: (factor) => change({ window: Math.min(read().window, clock.steps()) * factor }, "window"),
  };
  return clock;
}

/** The same clock, but in one episode. @param {import("../../types").Clock} clock @param {number} episode */
export const within = (clock, episode) => ({
  ...clock,
  subscribe: derived(clock, (now) => ({ ...now, episode })).subscribe,
  steps: () => clock.steps(episode),
});

/**
 * The clock of one of several episodes that a page's clock moves together; its frames are the episode's own.
 *
 * @param {import("../../types").Clock} clock the page's, in steps of the longest episode
 * @param {import("../../types").SelectionStore} selection with `sync`
 * @param {{steps: (episode: number) => number, checkpoint?: string, episode?: number | null,
 *   leave?: (moment: import("../../types").Moment) => void}} own {steps: (episode) => number, checkpoint}; and, where the page's clock has no episodes, its number in
 *   `episode` and a function `leave` that goes to a {episode, frame} elsewhere
 */
export function alignedClock(clock, selection, { steps, checkpoint = "", episode: own = null, leave = () => {} }) {
  const toFrame = ({ episode, frame }, { sync }) => frameAt(sync, frame, steps(episode), clock.steps(episode));
  const toStep = (episode, frame) => stepOf(selection.now.sync, frame, steps(episode), clock.steps(episode));
  const timeOf = (now, by) => ({ ...now, episode: own ?? now.episode, frame: toFrame(now, by) });
  const under = derived([clock.hovered, clock, selection], ([step, { episode }, { sync }]) =>
    step === null ? null : frameAt(sync, step, sync === "step" ? Infinity : steps(episode), clock.steps(episode)),
  );
  return {
    ...clock,
    checkpoint,
    subscribe: derived([clock, selection], ([now, by]) => timeOf(now, by)).subscribe,
    get now() {
      return timeOf(clock.now, selection.now);
    },
    hovered: {
      subscribe: under.subscribe,
      set: (frame) => clock.hovered.set(frame === null ? null : toStep(clock.now.episode, frame)),
    },
    go({ episode, frame }) {
      if (own === null) clock.go({ episode, frame: toStep(episode, frame) });
      else if (episode === own) clock.toFrame(toStep(clock.now.episode, frame));
      else leave({ episode, frame });
    },
    /** The page's step at which it shows a frame. */
    toStep: (frame) => toStep(clock.now.episode, frame),
    toFrame: (frame) => clock.toFrame(toStep(clock.now.episode, frame)),
  };
}

/** The frames of episodes that stay at their last one. @param {(trajectory: number) => number} steps of an episode */
export function heldFrames(frames, steps) {
  const last = (trajectory, frame) => Math.min(frame, steps(trajectory) - 1);
  return {
    ...frames,
    get: (trajectory, frame, ...more) => frames.get(trajectory, last(trajectory, frame), ...more),
    peek: (trajectory, frame, ...more) => frames.peek(trajectory, last(trajectory, frame), ...more),
  };
}

/** Plays a clock: frames per second, forwards or backwards, in step with the screen. */
export function createPlayer(clock, framesPerSecond = 12) {
  const direction = writable(0);
  const fps = writable(framesPerSecond);
  const loop = writable(false);
  let looping = false;
  let going = 0;
  let speed = framesPerSecond;
  let request = null;
  let due = 0;
  fps.subscribe((value) => (speed = value));
  loop.subscribe((value) => (looping = value));

  const endFrame = (towards) => (towards > 0 ? clock.steps() - 1 : 0);

  function tick(time) {
    if (!going) return;
    request = requestAnimationFrame(tick);
    if (time < due) return;
    const steps = Math.max(1, Math.min(8, Math.floor(((time - due) * speed) / 1000) + 1));
    due = Math.max(due + (steps * 1000) / speed, time);
    const atEnd = clock.now.frame === endFrame(going);
    if (atEnd && looping) clock.toFrame(endFrame(-going));
    else step(going * steps);
    if (!looping && clock.now.frame === endFrame(going)) stop();
  }

  const step = (count) => clock.toFrame(clock.now.frame + count);

  function play(towards) {
    if (clock.now.frame === endFrame(towards)) clock.toFrame(endFrame(-towards));
    going = towards;
    direction.set(going);
    cancelAnimationFrame(request);
    due = performance.now() + 1000 / speed;
    request = requestAnimationFrame(tick);
  }

  function stop() {
    going = 0;
    direction.set(0);
    cancelAnimationFrame(request);
  }

  return {
    direction: { subscribe: direction.subscribe },
    fps,
    /** Whether it begins again at the end. */
    loop,
    play,
    stop,
    toggle: (towards = 1) => (going === towards || (going && towards === 1) ? stop() : play(towards)),
    /** One step, or the other direction while playing. */
    arrow(towards) {
      if (going) play(towards);
      else step(towards);
    },
    toStart: () => clock.toFrame(0),
    toEnd: () => clock.toFrame(endFrame(1)),
  };
}
