// What several components let the reader do.
import { toQuery } from "../../pages/agent/address.js";
import { chosenChannels, withChannels } from "../../pages/agent/selection.js";

/** Show or hide one channel of the selected layer. */
export function toggleChannel(page, channel) {
  const { layer } = page.selection.now;
  if (channel >= page.manifest.layers[layer].channels) return;
  const shown = chosenChannels(page.selection.now, page.manifest.layers[layer], layer);
  chooseChannels(page, layer, shown.includes(channel) ? shown.filter((k) => k !== channel) : [...shown, channel]);
}

/** Show these channels of a layer; null: all. */
export const chooseChannels = ({ manifest, selection }, layer, chosen) =>
  selection.change({ channels: withChannels(manifest, selection.now.channels, layer, chosen) });

/** The address of what is shown. */
export const linkTo = ({ manifest, selection }) =>
  new URL(toQuery(manifest, selection.now), location.href.split(/[?#]/)[0]).href;

/** Copy the address of what is shown. */
export async function copyLink(page) {
  try {
    await navigator.clipboard.writeText(linkTo(page));
    page.announcement.set("Link copied");
  } catch {
    page.announcement.set("The browser does not allow copying here; the address bar holds the link");
  }
  setTimeout(() => page.announcement.set(""), 2500);
}

/** Go to a frame of a trajectory. */
export const goTo = ({ selection }, { trajectory, frame }) => selection.change({ trajectory, frame });

/** Give the reader a file. */
export function download(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
