/** The panel of a word: its tag, to be corrected, and below it the explanation of the tag. */

import { explain } from "./api.js";
import { kindOf } from "./corrections.js";
import { announce, directionOf, el } from "./dom.js";
import { explanation } from "./explanation.js";
import { language } from "./language.js";
import { t } from "./texts.js";

const STEPS = 10; // of EM that the slider offers at least

export class WordPanel {
  /**
   * @param {HTMLElement} root
   * @param {import("./result.js").ResultView} view
   * @param {() => void} onCorrect  called after each correction
   */
  constructor(root, view, onCorrect) {
    this.root = root;
    this.view = view;
    this.onCorrect = onCorrect;
    this.labels = { pos: [], ner: [] };
    this.task = "pos";
    this.choice = { step: STEPS, view: "", layer: "" };
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  /**
   * Forget the text before; a new one is shown.
   * @param {number | null} em  steps of EM that it was tagged with, null for as tuned
   * @param {boolean} adapted   whether taggers used what they learnt from raw text of the language
   */
  reset(em, adapted) {
    this.close(false);
    this.adapted = adapted;
    this.answers = new Map(); // "sentence task" -> promise of the answer of /v1/explain
    this.steps = Math.max(STEPS, em);
    this.choice.step = em ?? (this.text?.ranEM ? STEPS : 0);
    if (this.text && !this.text.tasks.includes(this.task)) this.task = this.text.tasks[0];
  }

  get text() {
    return this.view.text;
  }

  get isOpen() {
    return !this.root.hidden;
  }

  /** Show a word and move the focus to the panel. */
  open(sentence, word) {
    this.sentence = sentence;
    this.word = word;
    this.root.hidden = false;
    document.body.classList.add("panel-open");
    this.draw();
    this.view.select(sentence, word);
    this.root.querySelector("h2").focus({ preventScroll: true });
    this.view.current.scrollIntoView({ block: "nearest" });
  }

  close(refocus = true) {
    if (!this.isOpen) return;
    this.request?.abort();
    this.root.hidden = true;
    document.body.classList.remove("panel-open");
    this.view.select(null);
    if (refocus) this.view.focus();
  }

  draw() {
    const { text, sentence, word } = this;
    const form = text.sentences[sentence].words[word];
    const dir = directionOf(form);
    this.explanation = el("div", {});
    this.correction = el("div", { class: "correction" });
    this.root.replaceChildren(
      el(
        "div",
        { class: "panel-head" },
        el("h2", { id: "panel-word", tabindex: "-1" }, el("bdi", { lang: text.languages[sentence].code, dir }, form)),
        // in text from right to left the next word is on the left; the signs are mirrored with their order
        el(
          "span",
          { class: "steps", dir },
          this.stepButton(-1, "‹", t("panel.previous")),
          this.stepButton(1, "›", t("panel.next")),
        ),
        el(
          "button",
          { type: "button", class: "quiet icon", "aria-label": t("panel.close"), onclick: () => this.close() },
          "×",
        ),
      ),
      ...(text.tasks.length > 1 ? [this.taskSwitch()] : []),
      this.correction,
      this.explanation,
    );
    this.drawCorrection();
    this.drawExplanation();
  }

  /** A button that goes to the word before or after, over the ends of sentences. */
  stepButton(step, sign, label) {
    const target = this.neighbour(step);
    const go = () => {
      this.open(...target);
      const same = [...this.root.querySelectorAll(".panel-head button")].find((one) => one.textContent === sign);
      if (!same.disabled) same.focus();
    };
    return el(
      "button",
      { type: "button", class: "quiet icon", "aria-label": label, disabled: !target, onclick: go },
      sign,
    );
  }

  neighbour(step) {
    const { sentences } = this.text;
    const [sentence, word] = [this.sentence, this.word + step];
    if (sentences[sentence].words[word] !== undefined) return [sentence, word];
    const beside = sentences[sentence + step];
    return beside ? [sentence + step, step > 0 ? 0 : beside.words.length - 1] : null;
  }

  taskSwitch() {
    const radios = this.text.tasks.map((task) => {
      const radio = el("input", { type: "radio", name: "panel-task", value: task });
      radio.checked = task === this.task;
      radio.addEventListener("change", () => {
        this.task = task;
        this.drawCorrection();
        this.drawExplanation();
      });
      return el("label", {}, radio, el("span", {}, t(`task.${task}`)));
    });
    return el("fieldset", { class: "segments" }, el("legend", { class: "sr" }, t("panel.task")), ...radios);
  }

  drawCorrection() {
    const { text, task, sentence, word } = this;
    const tag = text.tag(task, sentence, word);
    const own = text.ownTag(task, sentence, word);
    const select = el(
      "select",
      { id: "correct" },
      ...this.tagOptions().map(([value, label]) => el("option", { value }, label)),
    );
    select.value = tag;
    select.addEventListener("change", () => this.correct(select.value));
    const parts = [el("label", { for: "correct" }, t("panel.correct")), select];
    if (tag !== own) {
      const undo = el("button", { type: "button", class: "quiet", onclick: () => this.undo(own) }, t("panel.undo"));
      parts.push(el("div", { class: "was" }, el("span", { class: "hint" }, t("panel.was", { tag: own })), undo));
    }
    this.correction.replaceChildren(...parts);
  }

  /** The tags that a word may have, with their names. A name can be continued only where one is. */
  tagOptions() {
    const { text, task, sentence, word } = this;
    const kinds = new Set([...this.labels[task], ...text.own[sentence][task].map(kindOf)]);
    kinds.delete(""); // of no name
    if (task === "pos") return [...kinds].map((tag) => [tag, `${tag}: ${this.view.meaning("pos", tag)}`]);
    const before = word ? kindOf(text.tag("ner", sentence, word - 1)) : "";
    const options = [["O", t("panel.no_name")]];
    for (const kind of kinds) {
      options.push([`B-${kind}`, t("panel.begins", { kind, meaning: this.view.meaning("ner", kind) })]);
      if (kind === before) options.push([`I-${kind}`, t("panel.continues", { kind })]);
    }
    return options;
  }

  correct(tag) {
    const { text, task, sentence, word } = this;
    const repaired = text.correct(task, sentence, word, tag);
    this.view.update(sentence);
    this.view.select(sentence, word);
    this.drawCorrection();
    this.root.querySelector("#correct").focus();
    announce(t("panel.now", { tag }) + (repaired ? ` ${t("panel.repaired")}` : ""));
    this.onCorrect();
  }

  undo(own) {
    const before = this.word ? kindOf(this.text.tag(this.task, this.sentence, this.word - 1)) : "";
    const begins = own.startsWith("I-") && before !== kindOf(own);
    this.correct(begins ? `B-${kindOf(own)}` : own);
  }

  /** Show why the word has its tag, as soon as the service has said it. */
  async drawExplanation() {
    const { text, task, sentence, word, explanation: place } = this;
    const isCurrent = () => place === this.explanation && task === this.task;
    place.replaceChildren(el("p", { class: "hint loading" }, t("panel.loading", { n: this.steps })));
    try {
      const answer = await this.ask(sentence, task);
      const { language: own, relatives } = await language(text.languages[sentence].code);
      const names = {
        meaning: (tag) => this.longMeaning(task, tag),
        sourceName: (source) => [own, ...relatives].find(({ code }) => code === source)?.name ?? source,
      };
      const { words } = text.sentences[sentence];
      if (isCurrent()) place.replaceChildren(explanation(answer, words, word, this.choice, names));
    } catch (error) {
      if (error.name === "AbortError" || !isCurrent()) return;
      place.replaceChildren(el("p", { class: "notice error", role: "alert" }, error.message));
    }
  }

  /** The service's explanation of a sentence, asked for once. A question about another sentence is given up. */
  ask(sentence, task) {
    const key = `${sentence} ${task}`;
    if (key !== this.asked) this.request?.abort();
    this.asked = key;
    if (!this.answers.has(key)) {
      this.request = new AbortController();
      const { words, language: lang } = this.text.sentences[sentence];
      const answer = explain({ words, lang, task, em_steps: this.steps, adapted: this.adapted }, this.request.signal);
      answer.catch(() => this.answers.delete(key));
      this.answers.set(key, answer);
    }
    return this.answers.get(key);
  }

  /** The meaning of a label, which for names also says whether it begins or continues one. */
  longMeaning(task, tag) {
    const meaning = this.view.meaning(task, tag);
    return tag.startsWith("I-") ? t("panel.inside", { meaning }) : meaning;
  }
}
