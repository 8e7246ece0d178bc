// Shows the page: TensorBoard and `index.html` call `render`.
const base = new URL("./", import.meta.url).href;

/** The document of TensorBoard around the tab's frame; null where there is none. */
function surroundings() {
  try {
    return parent === window ? null : parent.document;
  } catch {
    return null;
  }
}

/** Follow TensorBoard's light or dark theme. */
function followTheme() {
  const outside = surroundings();
  if (!outside) return;
  const follow = () => {
    document.documentElement.dataset.theme = outside.body.classList.contains("dark-mode") ? "dark" : "light";
  };
  new MutationObserver(follow).observe(outside.body, { attributes: true, attributeFilter: ["class"] });
  follow();
}

export async function render() {
  followTheme();
  const script = document.createElement("script");
  script.src = base + "page.js";
  await new Promise((resolve, reject) => {
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  const target = document.createElement("div");
  document.body.append(target);
  new globalThis.Interface({ target, props: { base } });
}
