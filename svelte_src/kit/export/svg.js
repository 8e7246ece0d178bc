// A figure as text: what is drawn with the part of a canvas's 2D context that tracks and figures use becomes SVG.

const escaped = (text) => String(text).replace(/[&<>"]/g, (character) => `&#${character.codePointAt(0)};`);
const number = (value) => String(Math.round(value * 100) / 100);

/**
 * @param {number} width
 * @param {number} height
 * @returns an object with the properties and methods of a CanvasRenderingContext2D that are used in drawing, and `toString`
 */
export function createSvg(width, height) {
  const elements = [];
  const patterns = [];
  const base = { fillStyle: "#000000", strokeStyle: "#000000", lineWidth: 1, lineJoin: "miter", globalAlpha: 1 };
  const state = { ...base, font: "10px sans-serif", imageSmoothingEnabled: true };
  let path = [];
  let dashes = [];
  let origin = { x: 0, y: 0 };
  const outer = [];

  const add = (name, attributes, content = null) => {
    const all = { ...attributes, ...(state.globalAlpha === 1 ? {} : { opacity: number(state.globalAlpha) }) };
    const texts = Object.entries(all).map(([key, value]) => ` ${key}="${escaped(value)}"`);
    elements.push(`<${name}${texts.join("")}${content === null ? "/>" : `>${escaped(content)}</${name}>`}`);
  };
  const place = (x, y) => `${number(x + origin.x)} ${number(y + origin.y)}`;
  const point = (x, y) => ({ x: number(x + origin.x), y: number(y + origin.y) });
  const box = (x, y, w, h) => ({ ...point(x, y), width: number(w), height: number(h) });

  return Object.assign(state, {
    beginPath: () => (path = []),
    moveTo: (x, y) => path.push(`M${place(x, y)}`),
    lineTo: (x, y) => path.push(`L${place(x, y)}`),
    rect: (x, y, w, h) => path.push(`M${place(x, y)}h${number(w)}v${number(h)}h${number(-w)}z`),
    /** Whole circles only. */
    arc(x, y, radius) {
      const r = number(radius);
      path.push(
        `M${place(x - radius, y)}a${r} ${r} 0 1 0 ${number(2 * radius)} 0a${r} ${r} 0 1 0 ${number(-2 * radius)} 0z`,
      );
    },
    closePath: () => path.push("z"),
    setLineDash: (list) => (dashes = list),
    fill: () => add("path", { d: path.join(""), fill: state.fillStyle }),
    stroke() {
      const { strokeStyle: stroke, lineWidth, lineJoin } = state;
      const dash = dashes.length ? { "stroke-dasharray": dashes.join(" ") } : {};
      const line = { fill: "none", stroke, "stroke-width": lineWidth, "stroke-linejoin": lineJoin };
      if (path.length) add("path", { d: path.join(""), ...line, ...dash });
    },
    fillRect: (x, y, w, h) => add("rect", { ...box(x, y, w, h), fill: state.fillStyle }),
    fillText(text, x, y) {
      const [, weight, size, family] = /^(?:(\w+) )?([\d.]+)px (.*)$/.exec(state.font) ?? [];
      const font = { "font-family": family, "font-size": size, ...(weight ? { "font-weight": weight } : {}) };
      add("text", { ...point(x, y), fill: state.fillStyle, ...font }, text);
    },
    /** Whole canvases only. */
    drawImage(canvas, x, y, w = canvas.width, h = canvas.height) {
      const style = state.imageSmoothingEnabled ? {} : { style: "image-rendering:pixelated" };
      add("image", { ...box(x, y, w, h), preserveAspectRatio: "none", ...style, href: canvas.toDataURL() });
    },
    translate: (x, y) => (origin = { x: origin.x + x, y: origin.y + y }),
    /** What follows is moved, and cut off outside a box, until `end` is called. */
    begin(x, y, w, h) {
      const attributes = Object.entries(box(x, y, w, h)).map(([key, value]) => ` ${key}="${value}"`);
      elements.push(`<svg${attributes.join("")}>`);
      outer.push(origin);
      origin = { x: 0, y: 0 };
    },
    end() {
      elements.push("</svg>");
      origin = outer.pop();
    },
    createPattern(tile) {
      const id = `pattern-${patterns.length + 1}`;
      const size = `width="${tile.width}" height="${tile.height}"`;
      const image = `<image ${size} href="${tile.toDataURL()}"/>`;
      patterns.push(`<pattern id="${id}" patternUnits="userSpaceOnUse" ${size}>${image}</pattern>`);
      return `url(#${id})`;
    },
    toString() {
      const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`;
      const defs = patterns.length ? [`<defs>${patterns.join("")}</defs>`] : [];
      return [head, ...defs, ...elements, "</svg>\n"].join("\n");
    },
  });
}
