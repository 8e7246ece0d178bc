// Charts as files.

const STYLES = ["fill", "stroke", "stroke-width", "opacity", "font-size", "font-family", "text-anchor"];

/** The charts of the page, one below the other. */
export function chartsSvg() {
  const charts = [...document.querySelectorAll("svg[data-chart]")].filter(({ clientWidth }) => clientWidth > 0);
  if (!charts.length) throw new Error("No chart is shown.");
  let top = 0;
  const parts = charts.map((chart) => {
    const copy = /** @type {Element} */ (chart.cloneNode(true));
    const [originals, copies] = [chart, copy].map((one) => [...one.querySelectorAll("*")]);
    copies.forEach((element, i) => {
      const style = getComputedStyle(originals[i]);
      element.setAttribute("style", STYLES.map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; "));
    });
    const [width, height] = [chart.clientWidth, chart.clientHeight];
    const heading = document.createElementNS("http://www.w3.org/2000/svg", "text");
    heading.textContent = chart.getAttribute("aria-label");
    heading.setAttribute("style", `font: 13px sans-serif; transform: translate(8px, ${top + 14}px)`);
    copy.setAttribute("y", String(top + 20));
    top += height + 32;
    return { width, text: heading.outerHTML + copy.outerHTML };
  });
  const width = Math.max(...parts.map((part) => part.width));
  const ground = getComputedStyle(document.body).getPropertyValue("--surface");
  const frame = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${top}" style="background: ${ground}">`;
  return new Blob([frame, ...parts.map(({ text }) => text), "</svg>\n"], { type: "image/svg+xml" });
}
