// How the reader likes the page; kept by the browser.

const CHOICES = { theme: ["system", "light", "dark"], palette: ["standard", "safe"] };

export const THEMES = CHOICES.theme;

export const DEFAULT_SETTINGS = {
  theme: "system",
  palette: "standard",
  keys: true,
  toured: false,
  totals: false,
  band: false,
  stack: false,
};

/** Settings of whatever the browser had kept: what is unknown or of another type is as by default. */
export function mendSettings(kept) {
  const fits = (key) => (key in CHOICES ? CHOICES[key].includes(kept[key]) : typeof kept[key] === "boolean");
  const keys = Object.keys(DEFAULT_SETTINGS);
  return Object.fromEntries(keys.map((key) => [key, kept && fits(key) ? kept[key] : DEFAULT_SETTINGS[key]]));
}
