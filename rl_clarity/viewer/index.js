// Shows the page. TensorBoard and `index.html` call `render`.
const base = new URL("./", import.meta.url).href;

export async function render() {
  let early = fetch(`${base}data/manifest.json`, { cache: "no-store" }); // while the script is loaded
  early.catch(() => {}); // the page repeats a failed request

  /** Like fetch, but the first call returns the response of the early request. */
  function request(address, options) {
    const answer = early ?? fetch(address, options);
    early = null;
    return answer;
  }

  const script = document.createElement("script");
  script.src = base + "page.js";
  await new Promise((resolve, reject) => {
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  const target = document.createElement("div");
  document.body.append(target);
  new globalThis.Interface({ target, props: { base, request } });
}
