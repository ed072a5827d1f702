/** The settings in the fragment of the address: `#lang=fo&task=pos&em=5&adapted=no`. The text is never part of them. */

const TASKS = ["pos", "ner", "both"];
const MOST_STEPS = 20;

/**
 * @typedef {object} Settings
 * @property {string} lang  a code, or "auto"
 * @property {string} task  "pos", "ner", "both"; "" is what suits the language
 * @property {string} em    "" is as tuned; otherwise the number of steps, "0" for none
 * @property {boolean} adapted  false leaves out what a tagger learnt from raw text of the language
 */

/** @returns {Settings} */
export function readSettings() {
  const given = new URLSearchParams(location.hash.slice(1));
  const lang = given.get("lang") ?? "";
  const task = given.get("task") ?? "";
  const em = given.get("em") ?? "";
  return {
    lang: /^[\w-]{2,20}$/.test(lang) ? lang : "auto",
    task: TASKS.includes(task) ? task : "",
    em: /^\d{1,2}$/.test(em) && Number(em) <= MOST_STEPS ? String(Number(em)) : "",
    adapted: given.get("adapted") !== "no",
  };
}

/** Keep the settings in the address, without a new entry in the history. @param {Settings} settings */
export function writeSettings({ lang, task, em, adapted }) {
  const kept = new URLSearchParams();
  if (lang !== "auto") kept.set("lang", lang);
  if (task) kept.set("task", task);
  if (em) kept.set("em", em);
  if (!adapted) kept.set("adapted", "no");
  const fragment = kept.size ? `#${kept}` : "";
  history.replaceState(null, "", location.pathname + location.search + fragment);
}

/** The fields of a request that the setting `em` stands for. */
export function emFields(em) {
  if (em === "") return { em: null, em_steps: null };
  return em === "0" ? { em: false, em_steps: null } : { em: true, em_steps: Number(em) };
}
