// Every panel by the name that an address uses (`?embed=1&panel=find`): its title, and how to read it in a sentence.

export const PANELS = {
  trajectories: {
    title: "Trajectories",
    text: "Every stretch of play as a strip, the first frame on the left; press one to look at it.",
  },
  bookmarks: {
    title: "Bookmarks",
    text: "Frames at which things went better or worse than the agent expected.",
  },
  timeline: {
    title: "What happened",
    text: "The agent's play as a film. The frame in view stands under the line in the middle.",
  },
  thoughts: {
    title: "What the agent thought",
    text: "The probability of every action, and the outputs that are explained below.",
  },
  attribution: {
    title: "Why",
    text: "Where in the observation, and because of which features, an output was as high or low as it was.",
  },
  legend: {
    title: "Features",
    text: "What each colour stands for: parts of observations that excite the feature.",
  },
  feature: {
    title: "Feature",
    text: "At each place of the picture, the part of an observation that excites this feature most there. Faint ones excite it little. Press one to see the whole observation.",
  },
  find: {
    title: "Find frames",
    text: "Lists the frames at which all conditions hold, strongest first, and marks them on the film; press one to go there.",
  },
  notes: {
    title: "Notes",
    text: "What you write here is tied to the frame, or feature, in view; press a note's place to see again what you saw.",
  },
  trust: {
    title: "How far to trust this",
    text: "How exactly the attribution adds up, how much the features leave out, and what made this page: the smaller the gaps and errors, the more the colours tell.",
  },
  export: {
    title: "Export",
    text: "Saves what the first row shows as files for talks and papers: one frame, a range of frames, or the numbers.",
  },
  help: {
    title: "Help",
    text: "Read the page from the top down: what happened, what the agent thought, and why. The small i beside a title says what the panel shows.",
  },
};

/** Panels that open at the side. */
export const TOOLS = ["feature", "find", "notes", "trust", "export", "help"];

/** Names that people may write for others. */
const ALSO = { features: "feature" };

/** The name of the panel that is meant, or null if there is none of that name. */
export function panelNamed(name) {
  const meant = Object.hasOwn(ALSO, name) ? ALSO[name] : name;
  return Object.hasOwn(PANELS, meant) ? meant : null;
}
