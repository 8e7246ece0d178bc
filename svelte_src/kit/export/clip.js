// Clips of figures, one for each frame: videos and animated PNGs.
import { encodeApng } from "./apng.js";
import { newCanvas } from "../image/canvas.js";

/** @typedef {(frame: number) => Promise<import("./figure.js").Figure>} FigureAt */

const ALTERNATIVE = "Save the animation (APNG) instead: it has the same images.";
const VIDEO_TYPES = ["video/mp4;codecs=avc1.42E01E", "video/webm;codecs=vp9", "video/webm"];

/** The figures of a range of frames, one after another, on a canvas that holds the first and the last one. */
async function* figures(figureAt, { first, last }) {
  const ends = [await figureAt(first), await figureAt(last)];
  const even = (length) => 2 * Math.ceil(length / 2); // as H.264 demands
  const [width, height] = ["width", "height"].map((side) => even(Math.max(...ends.map((figure) => figure[side]))));
  const canvas = newCanvas(width, height);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  for (let frame = first; frame <= last; frame += 1) {
    const figure = await figureAt(frame);
    yield () => {
      context.fillStyle = "#ffffff";
      context.fillRect(0, 0, width, height);
      figure.draw(context);
      return canvas;
    };
  }
}

/** The browser captures a canvas when it paints: after the second frame from now, that has happened. */
const painted = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));

/** A range of frames as a video, recorded while it plays: MP4 where the browser can, else WebM. @returns {Promise<Blob>} */
export async function video(figureAt, range, onProgress) {
  const type = VIDEO_TYPES.find((candidate) => globalThis.MediaRecorder?.isTypeSupported(candidate));
  if (!type) throw new Error(`This browser cannot record videos. ${ALTERNATIVE}`);
  const parts = [];
  /** @type {MediaRecorder | undefined} */
  let recorder;
  let count = 0;
  for await (const draw of figures(figureAt, range)) {
    const canvas = draw();
    if (recorder) {
      recorder.resume();
    } else {
      recorder = new globalThis.MediaRecorder(canvas.captureStream(), { mimeType: type, videoBitsPerSecond: 8e6 });
      recorder.ondataavailable = ({ data }) => parts.push(data);
      recorder.start();
    }
    await Promise.all([painted(), new Promise((resolve) => setTimeout(resolve, 1000 / range.fps))]);
    recorder.pause(); // while the next figure is made
    onProgress((count += 1) / (range.last - range.first + 1));
  }
  const recording = /** @type {MediaRecorder} */ (recorder); // a range has a frame
  const stopped = new Promise((resolve) => (recording.onstop = resolve));
  recording.stop();
  await stopped;
  const blob = new Blob(parts, { type: type.split(";")[0] });
  if (!blob.size) throw new Error(`The browser was too busy to record the video. ${ALTERNATIVE}`);
  return blob;
}

/** A range of frames as an animated PNG. @returns {Promise<Blob>} */
export async function animation(figureAt, range, onProgress) {
  const frames = [];
  let size = { width: 0, height: 0 };
  for await (const draw of figures(figureAt, range)) {
    const canvas = draw();
    size = { width: canvas.width, height: canvas.height };
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    frames.push(context.getImageData(0, 0, canvas.width, canvas.height).data);
    onProgress(frames.length / (range.last - range.first + 1));
  }
  return encodeApng(frames, { ...size, fps: range.fps });
}
