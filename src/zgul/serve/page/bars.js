/** Bars: shares between 0 and 1 with a name before and a number behind them. */

import { el } from "./dom.js";

/**
 * @typedef {object} Bar
 * @property {string} label
 * @property {string} [about]   explains the label
 * @property {number} share     0 to 1
 * @property {number} [before]  a thin mark on the bar
 * @property {string} text      the number that is shown
 * @property {string} [spoken]  added for screen readers
 * @property {string} [tag]     takes the colour of this tag
 * @property {boolean} [strong] the one that counts
 */

/** @param {Bar[]} bars @param {string} label  for screen readers */
export function barList(bars, label) {
  return el("ul", { class: "bars", "aria-label": label }, ...bars.map(barItem));
}

/** @param {Bar} bar */
function barItem(bar) {
  const fill = el("span", { class: "fill" });
  const track = el("span", { class: "track", "aria-hidden": "true" }, fill);
  fill.style.inlineSize = `${100 * bar.share}%`;
  if (bar.before !== undefined) {
    const mark = el("span", { class: "before" });
    mark.style.insetInlineStart = `${100 * bar.before}%`;
    track.append(mark);
  }
  return el(
    "li",
    { class: bar.strong ? "strong" : null, "data-tag": bar.tag },
    el("span", { class: "bar-label" }, bar.label, bar.about ? el("span", { class: "hint" }, ` ${bar.about}`) : null),
    track,
    el("span", { class: "bar-text" }, bar.text),
    bar.spoken ? el("span", { class: "sr" }, `, ${bar.spoken}`) : null,
  );
}
