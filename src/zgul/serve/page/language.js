/** Who a language is: names, family, how near the sources are, which tagger serves it and how well. */

import { getLanguage } from "./api.js";
import { barList } from "./bars.js";
import { byId, el } from "./dom.js";
import { percent, t } from "./texts.js";

const NEAREST = 5; // relatives that are shown at once
const known = new Map(); // code -> what the service says of the language

/** What the service says of a language; asked once. */
export async function language(code) {
  if (!known.has(code)) known.set(code, getLanguage(code));
  try {
    return await known.get(code);
  } catch (error) {
    known.delete(code);
    throw error;
  }
}

/**
 * Show a language beside the result.
 * @param {string} code
 * @param {{guessed?: number | null, warnings?: string[], tasks?: string[]}} more  how sure the guess is, if it
 *   is one; the warnings of the tagging; the tasks that were tagged
 */
export async function showLanguage(code, { guessed = null, warnings = [], tasks = [] } = {}) {
  const about = byId("about");
  about.dataset.code = code;
  const facts = await language(code);
  if (about.dataset.code !== code) return; // another was chosen meanwhile
  about.hidden = false;
  about.replaceChildren(
    heading(facts.language),
    ...(guessed === null ? [] : [el("p", { class: "note" }, t("about.guessed", { n: percent(guessed) }))]),
    ...warningList(warnings),
    factList(facts),
    ...taggerList(facts, tasks),
    ...relativeList(facts.relatives),
  );
}

/** Show no language. */
export function hideLanguage() {
  const about = byId("about");
  about.dataset.code = "";
  about.hidden = true;
}

function heading({ code, name, autonym, direction }) {
  return el(
    "h2",
    {},
    name,
    autonym && autonym !== name ? el("span", { class: "autonym", lang: code, dir: direction }, autonym) : null,
  );
}

function warningList(warnings) {
  if (!warnings.length) return [];
  const items = warnings.map((warning) => el("li", {}, warning));
  return [el("div", { class: "notice warning" }, el("h3", {}, t("about.warnings")), el("ul", {}, ...items))];
}

function factList({ language, group, reason }) {
  const also = (language.names ?? []).filter((name) => name !== language.name && name !== language.autonym);
  const facts = {
    codes: [...new Set([language.code, language.iso3])].filter(Boolean).join(", "),
    names: also.slice(0, 6).join(", "),
    family: (language.family ?? []).join(" › "),
    scripts: (language.scripts ?? []).map(scriptName).join(", "),
    territory: language.territory,
    group: group ? `${group}: ${reason}` : reason,
  };
  const rows = Object.entries(facts).filter(([, value]) => value);
  return el("dl", {}, ...rows.flatMap(([key, value]) => [el("dt", {}, t(`about.${key}`)), el("dd", {}, value)]));
}

/** Latn as "Latin". */
function scriptName(code) {
  return new Intl.DisplayNames(document.documentElement.lang, { type: "script" }).of(code);
}

function taggerList({ taggers, group, reason }, tasks) {
  const shown = tasks.length ? taggers.filter((tagger) => tasks.includes(tagger.task)) : taggers;
  if (!shown.length) return [];
  return [el("h3", {}, t("about.taggers")), ...shown.map((tagger) => taggerItem(tagger, `${group}: ${reason}`))];
}

/** @param {string} known  a reason that stands above already */
function taggerItem({ task, name, reason, warning, expected }, known) {
  const f1 = expected ? t("about.f1", { f1: Math.round(expected.f1) }) : t("about.f1_unknown");
  return el(
    "div",
    { class: "tagger" },
    el("p", {}, el("strong", {}, t(`task.${task}`)), " ", el("code", {}, name)),
    el("p", {}, f1, expected?.note ? el("span", { class: "hint" }, ` (${expected.note})`) : null),
    reason === known ? null : el("p", { class: "hint" }, reason),
    warning ? el("p", { class: "notice warning" }, warning) : null,
  );
}

function relativeList(relatives) {
  if (!relatives?.length) return [];
  const bars = relatives.map(({ code, name, average, genetic, syntactic }) => ({
    label: name,
    about: code,
    share: average,
    text: average.toFixed(2),
    spoken: t("about.near", { genetic: genetic.toFixed(2), syntactic: syntactic.toFixed(2) }),
  }));
  const label = t("about.relatives");
  const more = bars.slice(NEAREST);
  return [
    el("h3", {}, label),
    el("p", { class: "hint" }, t("about.relatives_hint")),
    barList(bars.slice(0, NEAREST), label),
    more.length
      ? el("details", {}, el("summary", {}, t("about.more_relatives", { n: bars.length })), barList(more, label))
      : null,
  ].filter(Boolean);
}
