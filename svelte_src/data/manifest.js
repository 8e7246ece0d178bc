// What the page of a job that is still at work has not got yet, in words.

/**
 * @param {object} manifest its `missing` lists names of files
 * @returns {string} such as "frames of trajectory 2; features of 1a; attribution to 1a, to 2b on trajectories 3 to 8"
 */
export function stillToBeMade(manifest) {
  const missing = new Set(manifest.missing ?? []);
  const lacks = (names) => names.some((name) => missing.has(name));
  const all = manifest.trajectories.length;
  const played = numbers(manifest.trajectories, ({ series, scrub, frames, pictures }) =>
    lacks([series, ...scrub, ...frames, ...pictures]),
  );
  const features = manifest.layers.filter((layer) => lacks(layer.thumbnails)).map(({ name }) => name);
  const attribution = manifest.layers.flatMap((layer) => {
    const left = numbers(manifest.trajectories, (_, t) =>
      lacks([layer.totals[t], ...Object.values(layer.attribution).flatMap((segments) => segments[t])]),
    );
    if (!left.length) return [];
    return [left.length === all ? `to ${layer.name}` : `to ${layer.name} on ${trajectories(left)}`];
  });
  const parts = [
    played.length && `frames of ${played.length === all ? "all trajectories" : trajectories(played)}`,
    features.length && `features of ${features.join(", ")}`,
    attribution.length && `attribution ${attribution.join(", ")}`,
  ].filter(Boolean);
  return parts.join("; ") || "how features compare";
}

/** Numbers, from 1, of the items that a condition holds for. */
function numbers(items, holds) {
  return items.map((item, i) => (holds(item, i) ? i + 1 : 0)).filter(Boolean);
}

/** "trajectory 2", "trajectories 1, 3 to 8" */
function trajectories(found) {
  const runs = [];
  for (const number of found) {
    const run = runs.at(-1);
    if (run && run[1] === number - 1) run[1] = number;
    else runs.push([number, number]);
  }
  const texts = runs.map(([first, last]) => (first === last ? `${first}` : `${first} to ${last}`));
  return `${found.length === 1 ? "trajectory" : "trajectories"} ${texts.join(", ")}`;
}
