// Components and functions of the kit for pages of any kind.
export { default as ActionKey } from "./graph/ActionKey.svelte";
export { default as Bar } from "./graph/Bar.svelte";
export { default as Bars } from "./graph/Bars.svelte";
export { default as Chart } from "./graph/Chart.svelte";
export { default as Factors } from "./graph/Factors.svelte";
export { default as GraphTrack } from "./graph/GraphTrack.svelte";
export { default as Histogram } from "./graph/Histogram.svelte";
export { default as Policy } from "./graph/Policy.svelte";
export { default as EpisodeView } from "./episode/EpisodeView.svelte";
export { default as MapFrame } from "./episode/MapFrame.svelte";
export { default as Play } from "./episode/Play.svelte";
export { default as Tracks } from "./episode/Tracks.svelte";
export { policyPainter } from "./episode/tracks.js";
export { default as Animation } from "./image/Animation.svelte";
export { default as Chip } from "./image/Chip.svelte";
export { default as FrameButton } from "./image/FrameButton.svelte";
export { default as Observation } from "./image/Observation.svelte";
export { default as Overlay } from "./image/Overlay.svelte";
export { cellArea, cellMiddle, cellUnder } from "./image/cells.js";
export {
  actionColors,
  CANVAS,
  graphColor,
  hexOf,
  loweringColor,
  outputColor,
  SAFE_HUES,
  saliencyColor,
  signedColor,
  signedCss,
  textOn,
  toneOf,
  trajectoryColor,
} from "./image/colors.js";
export { OUTPUTS, PALETTES, SCALES } from "./image/overlay.js";
export { composeSaliency, overlaySize } from "./image/saliency.js";
export { valuesAt } from "./image/values.js";
export { default as Choice } from "./shell/Choice.svelte";
export { default as Icon } from "./shell/Icon.svelte";
export { default as Menu } from "./shell/Menu.svelte";
export { default as NameField } from "./shell/NameField.svelte";
export { default as Panel } from "./shell/Panel.svelte";
export { default as Place } from "./shell/Place.svelte";
export { default as Provenance } from "./shell/Provenance.svelte";
export { default as ResourceState } from "./shell/ResourceState.svelte";
export { default as Scope } from "./shell/Scope.svelte";
export { default as Select } from "./shell/Select.svelte";
export { default as Slider } from "./shell/Slider.svelte";
export { default as Terms } from "./shell/Terms.svelte";
export { download } from "./shell/address.js";
export {
  factRows,
  fileName,
  formatNumber,
  formatPart,
  formatPercent,
  frameName,
  layerName,
  outputName,
  stepsText,
} from "./shell/format.js";
export { PAGE } from "./shell/page.js";
export { chosenLength, height, imageWidth, length, measured, ratio } from "./shell/sizes.js";
export { default as Toggle } from "./shell/Toggle.svelte";
export { default as Table } from "./table/Table.svelte";
export { default as FilmTrack } from "./time/FilmTrack.svelte";
export { default as Scatter } from "./scatter/Scatter.svelte";
export { default as StateMap } from "./scatter/StateMap.svelte";
export { default as Track } from "./time/Track.svelte";
export { default as Transport } from "./time/Transport.svelte";
export { default as TurnButtons } from "./time/TurnButtons.svelte";
export { isMarked } from "./time/brush.js";
export { within } from "./time/clock.js";
export { drawBand } from "./time/draw.js";
