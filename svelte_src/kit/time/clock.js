// Playing: frames per second, forwards or backwards, in step with the screen.
import { writable } from "svelte/store";

export function createPlayback(manifest, selection) {
  const direction = writable(0);
  const fps = writable(Number(manifest.view?.video_speed) || 12);
  let going = 0;
  let speed = 12;
  let request = null;
  let due = 0;
  fps.subscribe((value) => (speed = value));

  const lastFrame = () => manifest.trajectories[selection.now.trajectory].steps - 1;

  function tick(time) {
    if (!going) return;
    request = requestAnimationFrame(tick);
    if (time < due) return;
    const steps = Math.max(1, Math.min(8, Math.floor(((time - due) * speed) / 1000) + 1));
    due = Math.max(due + (steps * 1000) / speed, time);
    step(going * steps);
    if (selection.now.frame === (going > 0 ? lastFrame() : 0)) stop();
  }

  function step(count) {
    selection.toFrame(selection.now.frame + count);
  }

  function play(towards) {
    const end = towards > 0 ? lastFrame() : 0;
    if (selection.now.frame === end) selection.toFrame(towards > 0 ? 0 : lastFrame());
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
    play,
    stop,
    toggle: (towards = 1) => (going === towards || (going && towards === 1) ? stop() : play(towards)),
    /** One step, or the other direction while playing. */
    arrow(towards) {
      if (going) play(towards);
      else step(towards);
    },
    toStart: () => selection.toFrame(0),
    toEnd: () => selection.toFrame(lastFrame()),
  };
}
