import assert from "node:assert/strict";
import { test } from "node:test";
import { hexOf } from "../../kit/image/colors.js";
import { height, legendWidth, middleWidth } from "../../kit/shell/sizes.js";
import { lacksNumber } from "../../data/find.js";
import { chosenChannels, withChannels } from "./channels.js";
import { defineSelection } from "../../kit/page/selection.js";
import { FIELDS } from "./fields.js";

const { changed, fromQuery, initialSelection, toQuery } = defineSelection({ fields: FIELDS });

const MANIFEST = {
  view: { scrubber_visible_duration: 256 },
  trajectories: [{ steps: 100 }, { steps: 500 }],
  layers: [
    { key: "input", slug: "input", kind: "input", channels: 3 },
    { key: "1a", slug: "1a", kind: "layer", channels: 8 },
    { key: "2a", slug: "2a", kind: "layer", channels: 8 },
    { key: "3a", slug: "3a", kind: "layer", channels: 8 },
  ],
  outputs: [{ id: "value" }],
};
const START = initialSelection(MANIFEST);
const channelsOf = (text) => fromQuery(MANIFEST, text).channels;

test("each layer has its own choice of channels, which stays while another layer is looked at", () => {
  let channels = withChannels(MANIFEST, {}, 2, [5, 1]);
  channels = withChannels(MANIFEST, channels, 3, []);
  const selection = changed(MANIFEST, { ...START, layer: 2, channels }, { layer: 3 });
  const shown = (layer) => chosenChannels(selection, MANIFEST.layers[layer], layer);
  assert.deepEqual([shown(2), shown(3), shown(1).length], [[1, 5], [], 8]);
  assert.deepEqual(withChannels(MANIFEST, channels, 3, [0, 1, 2, 3, 4, 5, 6, 7]), { 2: [1, 5] });
  assert.deepEqual(withChannels(MANIFEST, channels, 2, null), { 3: [] });
  assert.equal(withChannels(MANIFEST, channels, 1, null), channels, "nothing has changed");
});

test("an address holds every layer's channels; one of a single list means the layer that it names", () => {
  const selection = { ...START, layer: 2, channels: { 1: [0], 2: [1, 5], 3: [] } };
  const text = toQuery(MANIFEST, selection);
  assert.match(decodeURIComponent(text), /channels=2\.6,1a~1,3a~none$/);
  assert.deepEqual(fromQuery(MANIFEST, text), selection);
  assert.deepEqual(channelsOf("?layer=3a&channels=1.3"), { 3: [0, 2] });
  assert.deepEqual(channelsOf("?layer=3a&channels=none"), { 3: [] });
  assert.deepEqual(channelsOf("?layer=2a&channels=9.x.-1,9z~1,input~4,1a~none,1a~2"), { 1: [1] });
  assert.deepEqual(toQuery(MANIFEST, { ...selection, channels: {} }), "?layer=2a&trajectory=1&frame=1");
});

test("the time in view is in the address, and in range", () => {
  assert.equal(START.visible, 256);
  const near = changed(MANIFEST, START, { visible: 51.2 });
  assert.equal(near.visible, 51);
  assert.match(toQuery(MANIFEST, near), /&visible=51$/);
  assert.equal(fromQuery(MANIFEST, toQuery(MANIFEST, near)).visible, 51);
  assert.deepEqual(
    ["1", "0", "x", "9999", "1e9"].map((text) => fromQuery(MANIFEST, `?visible=${text}`).visible),
    [16, 16, 256, 500, 256],
  );
  const short = { ...MANIFEST, view: { scrubber_visible_duration: 4 } };
  assert.equal(changed(short, initialSelection(short), { visible: 1 }).visible, 4, "as few as the option asks for");
});

test("an address without a palette means the usual one, or the one the reader prefers", () => {
  const prefers = { ...MANIFEST, view: { ...MANIFEST.view, palette: "safe" } };
  assert.doesNotMatch(toQuery(MANIFEST, START), /palette/);
  for (const manifest of [MANIFEST, prefers]) {
    for (const palette of ["standard", "safe"]) {
      const selection = { ...START, palette };
      assert.equal(fromQuery(manifest, toQuery(manifest, selection)).palette, palette);
    }
    assert.equal(fromQuery(manifest, "?palette=__proto__").palette, initialSelection(manifest).palette);
  }
  assert.match(toQuery(prefers, initialSelection(prefers)), /palette=safe/, "others see it so, too");
});

test("an empty field is no number", () => {
  for (const value of [null, undefined, "", NaN]) assert.ok(lacksNumber({ kind: "reward", value }));
  assert.ok(!lacksNumber({ kind: "reward", value: 0 }));
  assert.ok(!lacksNumber({ kind: "action", value: null }), "nothing is compared");
});

test("what is chosen wider makes room for itself", () => {
  assert.equal(height({ scrubber_height: "10%" }, "scrubber_height"), "10vh");
  assert.equal(height({ scrubber_height: "3ch" }, "scrubber_height"), "3ch");
  assert.deepEqual([legendWidth({}), middleWidth({ scrubber_width: "48em" })], [null, null]);
  assert.equal(legendWidth({ legend_item_width: "12em" }), "calc(2 * 12rem + 32px)");
  assert.equal(legendWidth({ legend_item_height: "12em" }), "calc(2 * 6rem + 32px)", "the width as it is by default");
  assert.equal(middleWidth({ scrubber_width: "96em", navigator_width: "9px" }), "max(96rem + 162px, 9px + 58px)");
});

test("a color of any spelling is a number for each part, and nonsense is none", () => {
  const known = {
    gold: "#ffd700",
    "rgb(1 2 3 / 50%)": "rgba(1, 2, 3, 0.5)",
    "#000000": "#000000",
    "#ffffff": "#ffffff",
  };
  const context = {
    now: "#000000",
    get fillStyle() {
      return this.now;
    },
    set fillStyle(color) {
      this.now = known[color] ?? this.now;
    },
  };
  assert.deepEqual(
    ["gold", "rgb(1 2 3 / 50%)", "nonsense"].map((color) => hexOf(color, context)),
    ["#ffd700", "#010203", null],
  );
});
