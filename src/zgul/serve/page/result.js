/** The tagged text: words over their tags, names as spans, and the legend. One tab stop; arrow keys move inside. */

import { kindOf, UNCERTAIN } from "./corrections.js";
import { directionOf, el } from "./dom.js";
import { percent, t } from "./texts.js";

const PUNCTUATION = /^\p{P}+$/u;

export class ResultView {
  /**
   * @param {HTMLElement} root
   * @param {HTMLElement} legend
   * @param {(sentence: number, word: number) => void} onChoose  called when a word is clicked or Enter pressed on it
   */
  constructor(root, legend, onChoose) {
    this.root = root;
    this.legend = legend;
    this.onChoose = onChoose;
    this.meanings = { pos: {}, ner: {} };
    /** @type {import("./corrections.js").TaggedText | null} */
    this.text = null;
    this.current = null; // the button that Tab reaches
    root.addEventListener("click", (event) => this.chooseWord(event.target.closest(".word")));
    root.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** @param {import("./corrections.js").TaggedText | null} text */
  show(text) {
    this.text = text;
    this.current = null;
    const list = el("ol", { class: "sentences", "aria-label": t("result.label") });
    for (const index of text ? text.sentences.keys() : []) list.append(this.sentence(index));
    this.root.replaceChildren(...(text ? [list] : []));
    this.moveTabStop(this.root.querySelector(".word"));
    this.showLegend();
  }

  /** Draw a sentence again after a correction; the word that had the focus gets it back. */
  update(sentence) {
    const word = this.current?.dataset;
    const old = this.root.querySelector(`li[data-sentence="${sentence}"]`);
    old.replaceWith(this.sentence(sentence));
    if (word) this.moveTabStop(this.button(Number(word.sentence), Number(word.word)));
    this.showLegend();
  }

  button(sentence, word) {
    return this.root.querySelector(`.word[data-sentence="${sentence}"][data-word="${word}"]`);
  }

  sentence(index) {
    const { words, offsets } = this.text.sentences[index];
    const { code } = this.text.languages[index];
    const item = el("li", {
      "data-sentence": index,
      dir: directionOf(words.join(" ")),
      "aria-label": t("result.sentence", { n: index + 1 }),
    });
    const entities = this.text.entities(index);
    for (let word = 0; word < words.length;) {
      const entity = entities.find(({ first }) => first === word);
      const joined = word > 0 && offsets[word][0] === offsets[word - 1][1];
      const punctuation = joined && !entity && PUNCTUATION.test(words[word]);
      const buttons = [];
      for (const last = entity?.last ?? word + 1; word < last; word++) buttons.push(this.word(index, word, code));
      const shown = entity ? this.entity(entity.kind, buttons) : buttons[0];
      if (joined) item.lastChild.classList.add("joined");
      if (punctuation) {
        shown.classList.add("punctuation");
        item.lastChild.append(shown); // it stays on the line of the word before
      } else item.append(el("span", { class: "unit" }, shown));
    }
    return item;
  }

  entity(kind, buttons) {
    return el(
      "span",
      { class: "entity", "data-tag": kind },
      el("span", { class: "entity-words" }, ...buttons),
      el("span", { class: "entity-label", "aria-hidden": "true" }, kind),
    );
  }

  word(sentence, word, language) {
    const { text } = this;
    const tasks = text.tasks;
    const states = ["uncertain", "corrected"].filter((state) => {
      const test = state === "uncertain" ? text.isUncertain : text.isCorrected;
      return tasks.some((task) => test.call(text, task, sentence, word));
    });
    const pos = tasks.includes("pos") ? text.tag("pos", sentence, word) : null;
    const spoken = tasks.map((task) => this.meaning(task, text.tag(task, sentence, word)));
    spoken.push(...states.map((state) => t(`word.${state}`)));
    const button = el(
      "button",
      {
        type: "button",
        class: ["word", ...states].join(" "),
        tabindex: "-1",
        "data-sentence": sentence,
        "data-word": word,
        "data-tag": pos,
      },
      el("span", { class: "form", lang: language }, text.sentences[sentence].words[word]),
      pos ? el("span", { class: "tag" }, ` ${pos}`) : null,
      el("span", { class: "sr" }, ` ${spoken.join(", ")}`),
    );
    return button;
  }

  /** What a tag means, in words. */
  meaning(task, tag) {
    const kind = kindOf(tag);
    return kind ? (this.meanings[task]?.[kind] ?? kind) : t("word.no_name");
  }

  showLegend() {
    const { text } = this;
    this.legend.hidden = !text;
    if (!text) return;
    const kinds = { pos: new Map(), ner: new Map() };
    for (const task of text.tasks) {
      for (const [index] of text.sentences.entries()) {
        const tags = task === "pos" ? text.tags[index].pos : text.entities(index).map(({ kind }) => kind);
        for (const tag of tags) kinds[task].set(tag, (kinds[task].get(tag) ?? 0) + 1);
      }
    }
    const entry =
      (task) =>
      ([tag, count]) =>
        el(
          "li",
          { "data-tag": tag, class: task },
          el("b", {}, tag),
          ` ${this.meaning(task, tag)} `,
          el("span", { class: "hint" }, String(count)),
        );
    const sorted = (task) => [...kinds[task]].sort(([one], [other]) => (one < other ? -1 : 1)).map(entry(task));
    const sample = (state) => el("span", { class: `sample ${state}`, "aria-hidden": "true" }, t("legend.sample"));
    const marks = [
      el("li", {}, sample("certain"), t("legend.certain", { n: percent(UNCERTAIN) })),
      el("li", {}, sample("uncertain"), t("legend.uncertain", { n: percent(UNCERTAIN) })),
    ];
    if (text.correctionCount) marks.push(el("li", {}, sample("corrected"), t("legend.corrected")));
    this.legend.replaceChildren(
      el("h3", { class: "sr" }, t("legend.label")),
      el("ul", {}, ...sorted("pos"), ...sorted("ner")),
      el("ul", {}, ...marks),
    );
  }

  chooseWord(button) {
    if (!button) return;
    this.moveTabStop(button);
    this.onChoose(Number(button.dataset.sentence), Number(button.dataset.word));
  }

  /** Mark the word that the panel explains; null for none. */
  select(sentence, word) {
    this.root.querySelector(".word[aria-current]")?.removeAttribute("aria-current");
    const button = sentence === null ? null : this.button(sentence, word);
    if (!button) return;
    button.setAttribute("aria-current", "true");
    this.moveTabStop(button);
  }

  focus() {
    this.current?.focus();
  }

  moveTabStop(button) {
    this.current?.setAttribute("tabindex", "-1");
    this.current = button;
    button?.setAttribute("tabindex", "0");
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (!this.current || event.ctrlKey || event.altKey || event.metaKey) return;
    const words = [...this.root.querySelectorAll(".word")];
    const place = words.indexOf(this.current);
    const forward = this.current.closest("li").dir === "rtl" ? "ArrowLeft" : "ArrowRight";
    const sentence = Number(this.current.dataset.sentence);
    let target;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight")
      target = words[place + (event.key === forward ? 1 : -1)];
    else if (event.key === "ArrowDown") target = this.button(sentence + 1, 0);
    else if (event.key === "ArrowUp") target = this.button(sentence - 1, 0);
    else if (event.key === "Home") target = words[0];
    else if (event.key === "End") target = words.at(-1);
    else return;
    event.preventDefault();
    if (!target) return;
    this.moveTabStop(target);
    target.focus();
  }
}
