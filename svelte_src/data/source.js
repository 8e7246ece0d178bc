// A server's data: the manifest, which changes while the page is open, and the entries of episodes, which it refers to.

import { applyChanges } from "./changes.js";

/** @param {string} base address of the page's folder, which ends in "/" */
export function createSource(base, request = globalThis.fetch) {
  const folder = new URL(`${base}data/`, globalThis.location?.href).href;
  let etag = null;
  let last = null;

  async function read(name, options) {
    const response = await request(folder + name, options);
    if (response.ok || response.status === 304) return response;
    throw new Error(response.status === 404 ? `${name} is missing` : `the server answered ${response.status}`);
  }

  return {
    /** What names in the manifest are relative to. */
    folder,
    /** The manifest; null if it is the same as the last time. */
    async manifest() {
      const since = last && etag ? `?since=${encodeURIComponent(etag.replace(/^W\/|"/g, ""))}` : "";
      const response = await read(`manifest.json${since}`, {
        cache: "no-store",
        headers: etag ? { "If-None-Match": etag } : {},
      });
      if (response.status === 304) return null;
      const answer = await response.json();
      last = answer.change ? applyChanges(last, answer.change) : answer;
      etag = response.headers.get("ETag");
      return last;
    },
    /** What an entry of the manifest leads to. */
    entry: async (name) => (await read(name)).json(),
  };
}
