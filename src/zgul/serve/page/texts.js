/** The words of the page: one file for each language of the interface, `texts.CODE.json`. */

/** Languages that the page is translated to; the first is taken when the reader's is not among them. */
const TRANSLATIONS = ["en"];

/** @type {Record<string, string | Record<string, string>>} */
let texts = {};
let plurals = new Intl.PluralRules("en");

/** Load the words in the reader's language. */
export async function loadTexts() {
  const wanted = navigator.languages.map((code) => code.split("-")[0]);
  const code = wanted.find((one) => TRANSLATIONS.includes(one)) ?? TRANSLATIONS[0];
  const response = await fetch(new URL(`texts.${code}.json`, import.meta.url));
  texts = await response.json();
  plurals = new Intl.PluralRules(code);
  document.documentElement.lang = code;
}

/**
 * A text of the page. `{name}` in it is replaced by the value of that name; `n` chooses between singular and plural.
 * @param {string} key
 * @param {Record<string, string | number>} values
 * @returns {string}
 */
export function t(key, values = {}) {
  let text = texts[key];
  if (text === undefined) throw new Error(`no text for ${key}`);
  if (typeof text !== "string") text = text[plurals.select(Number(values.n))] ?? text.other;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
}

/** Whether there is a text of this key. */
export const hasText = (key) => key in texts;

/** Fill in the texts of the elements that name one in `data-text` or, as a label, in `data-label`. */
export function fillTexts(root) {
  for (const node of root.querySelectorAll("[data-text]")) node.textContent = t(node.dataset.text);
  for (const node of root.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));
}

/** 0.973 as "97": percent without sign. */
export const percent = (share) => String(Math.round(share * 100));
