// What several components let the reader do.
import { toQuery } from "../lib/address.js";

/** Show or hide one channel of the selected layer. */
export function toggleChannel({ manifest, selection }, channel) {
  const count = manifest.layers[selection.now.layer].channels;
  if (channel >= count) return;
  const all = Array.from({ length: count }, (_, k) => k);
  const shown = selection.now.channels ?? all;
  const next = all.filter((k) => (k === channel ? !shown.includes(k) : shown.includes(k)));
  selection.change({ channels: next.length === count ? null : next });
}

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
