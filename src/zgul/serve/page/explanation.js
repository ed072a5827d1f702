/** Why a word has its tag: probabilities, source languages, and what each step of entropy minimisation changes. */

import { barList } from "./bars.js";
import { kindOf } from "./corrections.js";
import { el } from "./dom.js";
import { hasText, percent, t } from "./texts.js";

const WORTH_SHOWING = 0.01;

/**
 * What the reader has set in the panel. It stays when another word is chosen.
 * @typedef {object} Choice
 * @property {number} step   of EM
 * @property {string} view   "fusion", "lang2vec" or "" for their average
 * @property {string} layer  a number from "0", or "" for the average
 */

/**
 * Draw the explanation of a word.
 * @param {any} answer    of /v1/explain
 * @param {string[]} words  of the sentence
 * @param {number} word
 * @param {Choice} choice
 * @param {{meaning: (tag: string) => string, sourceName: (code: string) => string}} names
 * @returns {HTMLElement}
 */
export function explanation(answer, words, word, choice, names) {
  const steps = answer.steps.length - 1;
  choice.step = Math.min(choice.step, steps);
  const slider = el("input", {
    type: "range",
    id: "slider",
    min: 0,
    max: steps,
    step: 1,
    "aria-describedby": "slider-value",
  });
  slider.value = String(choice.step);
  const value = el("output", { for: "slider", id: "slider-value" });
  const changes = el("div", { "aria-live": "polite" });
  const [probabilities, entropy, sources] = [el("div"), el("div"), el("div")];

  const drawSources = () => sources.replaceChildren(sourceBars(answer, word, choice, names.sourceName));
  const draw = () => {
    slider.setAttribute("aria-valuetext", stepText(choice.step));
    value.textContent = stepText(choice.step);
    probabilities.replaceChildren(...probabilityBars(answer, word, choice.step, names.meaning));
    entropy.replaceChildren(entropyText(answer.steps, choice.step));
    changes.replaceChildren(...changeList(answer.steps, words, choice.step));
    drawSources();
  };
  slider.addEventListener("input", () => {
    choice.step = Number(slider.value);
    draw();
  });
  draw();
  return el(
    "div",
    { class: "explanation" },
    el("h3", {}, t("panel.probabilities")),
    probabilities,
    el("div", { class: "slider" }, el("label", { for: "slider" }, t("panel.slider")), value, slider),
    entropy,
    changes,
    el("h3", {}, t("panel.sources")),
    sourceControls(answer, choice, drawSources),
    sources,
    el("p", { class: "hint" }, t("panel.mark")),
  );
}

const stepText = (step) => (step ? t("panel.step", { n: step }) : t("panel.before"));

function probabilityBars({ labels, steps }, word, step, meaning) {
  const [before, now] = [steps[0].probabilities[word], steps[step].probabilities[word]];
  const shown = labels
    .map((label, index) => ({ label, before: before[index], now: now[index] }))
    .filter((row) => Math.max(row.before, row.now) >= WORTH_SHOWING)
    .sort((one, other) => other.now - one.now);
  const bars = shown.map((row) => ({
    label: row.label,
    about: meaning(row.label),
    share: row.now,
    before: row.before,
    text: `${percent(row.now)} %`,
    spoken: t("panel.bar_before", { n: percent(row.before) }),
    tag: kindOf(row.label),
    strong: row.label === steps[step].tags[word],
  }));
  const others = labels.length - shown.length;
  return [
    barList(bars, t("panel.probabilities")),
    others ? el("p", { class: "hint" }, t("panel.others", { n: others })) : "",
  ];
}

function entropyText(steps, step) {
  const values = { before: steps[0].entropy.toFixed(2), after: steps[step].entropy.toFixed(2), step: stepText(step) };
  return el("p", { class: "hint" }, t(step ? "panel.entropy" : "panel.entropy_before", values));
}

function changeList(steps, words, step) {
  const [before, now] = [steps[0].tags, steps[step].tags];
  if (!step) return [];
  const isolated = (word) => `\u2068${word}\u2069`; // right-to-left words leave the order of the others alone
  const change = (index) => t("panel.change", { word: isolated(words[index]), from: before[index], to: now[index] });
  const changed = [...words.keys()]
    .filter((index) => before[index] !== now[index])
    .map((index) => el("li", {}, change(index)));
  if (!changed.length) return [el("p", { class: "hint" }, t("panel.unchanged"))];
  return [el("p", {}, t("panel.changed", { n: changed.length })), el("ul", { class: "changes" }, ...changed)];
}

function sourceControls({ views, layers }, choice, onChange) {
  const select = (id, key, options) => {
    const node = el("select", { id }, ...options.map(([value, text]) => el("option", { value }, text)));
    node.value = choice[key];
    node.addEventListener("change", () => {
      choice[key] = node.value;
      onChange();
    });
    return node;
  };
  const viewName = (view) => (hasText(`panel.view.${view}`) ? t(`panel.view.${view}`) : view);
  const viewOptions = [["", t("panel.view_mean")], ...views.map((view) => [view, viewName(view)])];
  const layerOptions = Array.from({ length: layers }, (_, layer) => [
    String(layer),
    t("panel.layer_n", { n: layer + 1 }),
  ]);
  return el(
    "div",
    { class: "source-controls" },
    el("label", {}, t("panel.view"), " ", select("view", "view", viewOptions)),
    el("label", {}, t("panel.layer"), " ", select("layer", "layer", [["", t("panel.layer_mean")], ...layerOptions])),
  );
}

function sourceBars(answer, word, choice, sourceName) {
  const [before, now] = [answer.steps[0], answer.steps[choice.step]].map((step) =>
    shares(answer, step.weights[word], choice),
  );
  const bars = answer.sources.map((code, index) => ({
    label: sourceName(code),
    about: code,
    share: now[index],
    before: before[index],
    text: `${percent(now[index])} %`,
    spoken: t("panel.bar_before", { n: percent(before[index]) }),
  }));
  bars.sort((one, other) => other.share - one.share);
  return barList(bars, t("panel.sources"));
}

/** The share of each source in a word's mix, averaged over the layers and views that are chosen. */
function shares({ sources, views }, weights, { view, layer }) {
  const rows = (layer === "" ? weights : [weights[Number(layer)]]).flatMap((byView) =>
    view === "" ? byView : [byView[views.indexOf(view)]],
  );
  return sources.map((_, source) => rows.reduce((sum, row) => sum + row[source], 0) / rows.length);
}
