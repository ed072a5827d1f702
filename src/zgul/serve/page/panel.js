/** The panel of a word: its tag, to be corrected, and below it the explanation of the tag. */

import { explain } from "./api.js";
import { kindOf } from "./corrections.js";
import { announce, directionOf, el } from "./dom.js";
import { explanation } from "./explanation.js";
import { language } from "./language.js";
import { t } from "./texts.js";

const STEPS = 10; // of EM that the slider offers

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
    this.request = null;
    root.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  /** Forget the text before; a new one is shown. `steps`: of EM, at which the slider begins. */
  reset(steps) {
    this.close(false);
    this.answers = new Map(); // "sentence task" -> answer of /v1/explain
    this.choice.step = steps ?? STEPS;
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
        el("span", { class: "steps", dir }, this.stepButton(-1, "‹", t("panel.previous")), this.stepButton(1, "›", t("panel.next"))),
        el("button", { type: "button", class: "quiet icon", "aria-label": t("panel.close"), onclick: () => this.close() }, "×"),
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
    return el("button", { type: "button", class: "quiet icon", "aria-label": label, disabled: !target, onclick: go }, sign);
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
    const select = el("select", { id: "correct" }, ...this.tagOptions().map(([value, label]) => el("option", { value }, label)));
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
    if (task === "pos") return this.labels.pos.map((tag) => [tag, `${tag}: ${this.view.meaning("pos", tag)}`]);
    const before = word ? kindOf(text.tag("ner", sentence, word - 1)) : "";
    const options = [["O", t("panel.no_name")]];
    for (const kind of this.labels.ner) {
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
    announce(t("panel.now", { tag }) + (repaired ? ` ${t("panel.repaired", { n: repaired })}` : ""));
    this.onCorrect();
  }

  undo(own) {
    const before = this.word ? kindOf(this.text.tag(this.task, this.sentence, this.word - 1)) : "";
    const begins = own.startsWith("I-") && before !== kindOf(own);
    this.correct(begins ? `B-${kindOf(own)}` : own);
  }

  /** Ask the service why, once for each sentence and task, and show what it says. */
  async drawExplanation() {
    const { text, task, sentence, word, explanation: place } = this;
    const key = `${sentence} ${task}`;
    const { words } = text.sentences[sentence];
    const { code } = text.languages[sentence];
    this.request?.abort();
    if (!this.answers.has(key)) {
      place.replaceChildren(el("p", { class: "hint loading" }, t("panel.loading", { n: STEPS })));
      this.request = new AbortController();
      const body = { words, word_langs: null, lang: code, task, em_steps: STEPS, em_lr: null };
      try {
        const answer = await explain(body, this.request.signal);
        const { relatives } = await language(code);
        answer.names = new Map(relatives.map((relative) => [relative.code, relative.name]));
        this.answers.set(key, answer);
      } catch (error) {
        if (error.name !== "AbortError") place.replaceChildren(el("p", { class: "notice error", role: "alert" }, error.message));
        return;
      }
    }
    const answer = this.answers.get(key);
    const names = {
      meaning: (tag) => (tag.startsWith("I-") ? t("panel.inside", { meaning: this.view.meaning(task, tag) }) : this.view.meaning(task, tag)),
      sourceName: (source) => answer.names.get(source) ?? source,
    };
    place.replaceChildren(explanation(answer, words, word, this.choice, names));
  }
}
