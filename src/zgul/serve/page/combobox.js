/** Choosing a language by any of its names: the ARIA combobox pattern with a list that is searched while typing. */

import { searchLanguages } from "./api.js";
import { announce, el } from "./dom.js";
import { t } from "./texts.js";

const PAUSE = 150; // milliseconds without a key before a search

export class LanguageBox {
  /**
   * @param {HTMLInputElement} input
   * @param {HTMLUListElement} list
   * @param {(code: string) => void} onChoose  called with the code when the user chooses
   */
  constructor(input, list, onChoose) {
    this.input = input;
    this.list = list;
    this.onChoose = onChoose;
    this.active = -1;
    this.options = [];
    this.chosen = { code: "auto", name: t("language.guess") };
    this.search = null;
    this.pending = false; // something was typed that the list does not answer yet
    this.takeFirst = false; // Enter was pressed meanwhile
    input.addEventListener("focus", () => input.select());
    input.addEventListener("click", () => this.open());
    input.addEventListener("input", () => this.searchSoon());
    input.addEventListener("keydown", (event) => this.onKey(event));
    input.addEventListener("blur", () => this.leave());
    list.addEventListener("mousedown", (event) => event.preventDefault()); // the input keeps the focus
    list.addEventListener("click", (event) => {
      const item = event.target.closest("[role=option]");
      if (item) this.choose(Number(item.dataset.index));
    });
    this.show();
  }

  get code() {
    return this.chosen.code;
  }

  /** Take a language without telling anybody. */
  set(code, name) {
    this.chosen = { code, name: code === "auto" ? t("language.guess") : name };
    this.show();
  }

  show() {
    this.input.value = this.chosen.name;
  }

  searchSoon() {
    this.pending = true;
    this.takeFirst = false;
    this.activate(-1);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(this.input.value.trim()), PAUSE);
  }

  /** Show the languages that are like `query`; without one, those of the paper. */
  async open(query = "") {
    this.search?.abort();
    this.search = new AbortController();
    const { signal } = this.search;
    let found;
    try {
      found = await searchLanguages(query, signal);
    } catch (error) {
      if (!signal.aborted) this.showMessage(error.message);
      return;
    }
    if (signal.aborted) return;
    const guess = { code: "auto", name: t("language.guess"), about: t("language.guess_about") };
    this.pending = false;
    this.options = query ? found : [guess, ...found];
    if (!this.options.length) {
      this.showMessage(t("language.none"));
      return;
    }
    this.list.replaceChildren(...this.options.map((option, index) => this.item(option, index)));
    this.expand(true);
    this.activate(query ? 0 : -1);
    if (this.takeFirst) this.choose(0);
    else if (query) announce(t("language.found", { n: found.length }));
  }

  item(option, index) {
    const about = option.about ?? [option.autonym, option.code, option.family?.[0]].filter(Boolean).join(" · ");
    return el(
      "li",
      { role: "option", id: `language-${index}`, "data-index": index, "aria-selected": "false" },
      el("span", { class: "name" }, option.name),
      " ",
      el("span", { class: "hint" }, about),
    );
  }

  showMessage(text) {
    this.options = [];
    this.pending = this.takeFirst = false;
    this.list.replaceChildren(el("li", { class: "hint", role: "option", "aria-disabled": "true" }, text));
    this.expand(true);
    this.activate(-1);
    announce(text);
  }

  expand(open) {
    this.list.hidden = !open;
    this.input.setAttribute("aria-expanded", String(open));
  }

  /** Mark an option as the one that Enter takes; -1 for none. */
  activate(index) {
    this.active = index;
    for (const [place, item] of [...this.list.children].entries()) {
      item.setAttribute("aria-selected", String(place === index));
    }
    const item = this.list.children[index];
    if (item) {
      this.input.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else {
      this.input.removeAttribute("aria-activedescendant");
    }
  }

  choose(index) {
    const option = this.options[index];
    if (!option) return;
    this.set(option.code, option.name);
    this.close();
    this.onChoose(option.code);
  }

  /** The user goes on: a name or code that was typed in full is taken, anything else is dropped. */
  async leave() {
    if (this.pending) {
      clearTimeout(this.timer);
      await this.open(this.input.value.trim());
      if (document.activeElement === this.input) return;
    }
    const typed = this.input.value.trim().toLowerCase();
    const index = this.options.findIndex(({ code, name, autonym }) =>
      [code, name, autonym].some((one) => one?.toLowerCase() === typed),
    );
    if (index >= 0 && this.options[index].code !== this.code) this.choose(index);
    else this.close();
  }

  /** Close the list and show the language that is chosen. */
  close() {
    this.pending = this.takeFirst = false;
    clearTimeout(this.timer);
    this.search?.abort();
    this.expand(false);
    this.activate(-1);
    this.show();
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const open = !this.list.hidden;
    const count = this.options.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (!open) this.open();
      else if (count) this.activate((this.active + step + count + (this.active < 0 && step < 0 ? 1 : 0)) % count);
    } else if (event.key === "Enter" && this.pending) {
      event.preventDefault();
      this.takeFirst = true;
    } else if (event.key === "Enter" && open) {
      event.preventDefault();
      this.choose(this.active);
    } else if (event.key === "Escape" && open) {
      event.preventDefault();
      event.stopPropagation();
      this.close();
    }
  }
}
