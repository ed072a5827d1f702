/** Making elements, and small helpers of the document. */

/**
 * An element. Text in it is always text: nothing that a user or a server sends can become markup.
 * @param {string} name
 * @param {Record<string, unknown>} attributes  `class`, `data-…`, `aria-…` and so on; `on…` are listeners; false and
 *   null leave an attribute out
 * @param {...(Node | string | null)} children
 * @returns {HTMLElement}
 */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** The element of this id. */
export const byId = (id) => /** @type {any} */ (document.getElementById(id));

const RIGHT_TO_LEFT =
  /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

/** The direction of a text: that of its first letter. A language may be written in several scripts. */
export function directionOf(text) {
  const letter = text.match(/\p{L}/u);
  return letter && RIGHT_TO_LEFT.test(letter[0]) ? "rtl" : "ltr";
}

let clearing = 0;

/** Say something to screen readers without moving the focus. */
export function announce(text) {
  const status = byId("status");
  clearTimeout(clearing);
  status.textContent = "";
  clearing = setTimeout(() => (status.textContent = text), 50);
}
