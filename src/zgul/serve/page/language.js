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
 * @param {{guessed?: number | null, warnings?: string[], tasks?: string[], adapted?: boolean}} more  how sure the
 *   guess is, if it is one; the warnings of the tagging; the tasks that were tagged; whether taggers use what they
 *   learnt from raw text of the language
 */
export async function showLanguage(code, { guessed = null, warnings = [], tasks = [], adapted = true } = {}) {
  const about = byId("about");
  about.dataset.code = code;
  const facts = await language(code);
  if (about.dataset.code !== code) return; // another was chosen meanwhile
  about.hidden = false;
  about.replaceChildren(
    heading(facts.language),
    ...(guessed === null ? [] : [el("p", { class: "note" }, sureness(guessed))]),
    ...warningList(warnings),
    factList(facts),
    ...taggerList(facts, tasks, adapted, warnings),
    ...relativeList(facts.relatives),
  );
}

/** A guess is never certain. */
const sureness = (share) => (share < 0.99 ? t("about.guessed", { n: percent(share) }) : t("about.guessed_sure"));

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

function taggerList({ language, taggers, group, reason }, tasks, adapted, warnings) {
  const shown = tasks.length ? taggers.filter((tagger) => tasks.includes(tagger.task)) : taggers;
  if (!shown.length) return [];
  const known = [`${group}: ${reason}`, ...warnings];
  const items = shown.map((tagger) => taggerItem(tagger, known, adapted));
  const choice = shown.some(({ base }) => base) ? [adaptedChoice(language.name, adapted)] : [];
  return [el("h3", {}, t("about.taggers")), ...items, ...choice];
}

/** The choice between the taggers that were adapted to raw text of the language and the zero-shot ones. */
function adaptedChoice(name, adapted) {
  const box = el("input", { type: "checkbox", id: "adapted", checked: adapted, "aria-describedby": "adapted-hint" });
  return el(
    "div",
    { class: "adapted" },
    el("label", {}, box, " ", t("about.adapted", { name })),
    el("p", { id: "adapted-hint", class: "hint" }, t("about.adapted_hint")),
  );
}

/**
 * @param {any} tagger
 * @param {string[]} known   what stands above already: the reason of the group, and warnings
 * @param {boolean} adapted  false shows the zero-shot tagger where this one was adapted
 */
function taggerItem({ task, base, warning, ...own }, known, adapted) {
  const [group] = known;
  const zeroShot = { name: base, reason: group, expected: own.zero_shot };
  const { name, reason, expected } = base && !adapted ? zeroShot : own;
  const without = t(warning ? "about.f1_poor" : "about.f1_unknown");
  const f1 = expected ? t("about.f1", { f1: Math.round(expected.f1) }) : without;
  return el(
    "div",
    { class: "tagger" },
    el("p", {}, el("strong", {}, t(`task.${task}`)), " ", el("code", {}, name)),
    el("p", {}, f1, expected?.note ? el("span", { class: "hint" }, ` (${expected.note})`) : null),
    reason === group ? null : el("p", { class: "hint" }, reason.replace(`; ${group}`, "")),
    base && adapted && own.zero_shot
      ? el("p", { class: "hint" }, t("about.zero_shot", { f1: Math.round(own.zero_shot.f1), name: base }))
      : null,
    warning && !known.includes(warning) ? el("p", { class: "notice warning" }, warning) : null,
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
