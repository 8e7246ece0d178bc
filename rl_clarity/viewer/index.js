// Shows the page: TensorBoard and `index.html` call `render`.
const base = new URL("./", import.meta.url).href;

export async function render() {
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
