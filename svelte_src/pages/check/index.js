// Sanity checks of saliency methods: the page of an agent without layers; generic panels draw the checks.
import { definePage } from "../../kit/page/page.js";
import { AGENT } from "../agent/index.js";

export const check = definePage({
  ...AGENT,
  sections: ["trajectories"],
  layout: {
    navigation: ["trajectories"],
    main: ["timeline"],
    legend: [],
    aside: ["find", "notes", "trust", "help"],
  },
  tour: [
    ["timeline", "Timeline", "The episodes that the checked frames are from, as a filmstrip."],
    ["checks", "Checks", "What was found for each method, in words and numbers."],
    ["check_maps", "Maps", "Maps of the trained network beside those of networks with random layers."],
    [
      "check_deletion",
      "Deletion",
      "How much faster the output changes if pixels are blurred in the map's order than if they are blurred in other orders.",
    ],
  ],
});
