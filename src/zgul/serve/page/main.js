/** The page: puts the parts together, tags, and keeps the address and the messages up to date. */

import { getConfig, setKey, tagTexts } from "./api.js";
import { LanguageBox } from "./combobox.js";
import { TaggedText } from "./corrections.js";
import { announce, byId, el } from "./dom.js";
import { setUpDownload } from "./download.js";
import { hideLanguage, language, showLanguage } from "./language.js";
import { WordPanel } from "./panel.js";
import { ResultView } from "./result.js";
import { emFields, readSettings, writeSettings } from "./settings.js";
import { showExamples, Source } from "./source.js";
import { fillTexts, loadTexts, t } from "./texts.js";

const EM_STEPS = [1, 2, 5, 10, 20];
const GUESS_FROM = 600; // characters of a file of sentences that its language is guessed from

class Page {
  constructor() {
    this.form = byId("form");
    this.em = byId("em");
    this.running = null; // the request that is under way
    this.adapted = true; // whether taggers may use what they learnt from raw text of the language
    this.fillEm();
    this.box = new LanguageBox(byId("language"), byId("languages"), (code) => this.onLanguage(code));
    this.source = new Source(
      (error) => this.showError(error),
      () => this.clearError(),
    );
    this.view = new ResultView(byId("sentences"), byId("legend"), (sentence, word) => this.panel.open(sentence, word));
    this.panel = new WordPanel(byId("panel"), this.view, () => this.showSummary());
    setUpDownload(
      () => this.view.text,
      (error) => this.showError(error),
    );
    this.listen();
  }

  listen() {
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.tag();
    });
    this.form.addEventListener("change", (event) => {
      if (event.target.name === "task" || event.target === this.em) writeSettings(this.settings);
    });
    byId("about").addEventListener("change", (event) => this.onAdapted(event.target));
    byId("text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    });
    byId("key").addEventListener("change", (event) => {
      setKey(event.target.value);
      this.loadLists().catch((error) => this.showError(error));
    });
    window.addEventListener("hashchange", () => this.applySettings());
    window.addEventListener("beforeunload", (event) => {
      if (this.view.text?.unsavedCount) event.preventDefault();
    });
  }

  /** Ask the service what it can do. What needs a key waits until there is one. */
  async start() {
    const config = await getConfig();
    byId("key-field").hidden = !config.key_needed;
    byId("version").textContent = t("footer.version", { version: config.version });
    this.view.meanings = config.tags;
    this.panel.labels = { pos: Object.keys(config.tags.pos), ner: Object.keys(config.tags.ner) };
    if (config.key_needed) byId("key").focus();
    else await this.loadLists();
  }

  async loadLists() {
    await Promise.all([this.applySettings(), showExamples((example) => this.tagExample(example))]);
    this.clearMessage();
  }

  fillEm(more = []) {
    const steps = [...new Set([...EM_STEPS, ...more])].sort((one, other) => one - other);
    const options = [["", t("em.tuned")], ["0", t("em.off")], ...steps.map((n) => [String(n), t("em.steps", { n })])];
    this.em.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
  }

  get settings() {
    return { lang: this.box.code, task: this.form.elements.task.value, em: this.em.value, adapted: this.adapted };
  }

  /** Take the settings of the address. */
  async applySettings() {
    const { lang, task, em, adapted } = readSettings();
    this.adapted = adapted;
    this.form.elements.task.value = task;
    this.fillEm(Number(em) ? [Number(em)] : []);
    this.em.value = em;
    this.box.set(lang, lang);
    await this.onLanguage(lang);
    if (lang === "auto") return;
    const { name } = (await language(lang)).language;
    if (this.box.code === lang) this.box.set(lang, name);
  }

  async onLanguage(code) {
    writeSettings(this.settings);
    if (this.view.text) return; // what stands beside a result belongs to it
    if (code === "auto") hideLanguage();
    else await showLanguage(code, { adapted: this.adapted }).catch((error) => this.showError(error));
  }

  /** Tag again, with or without what the tagger learnt from raw text of the language. */
  async onAdapted(box) {
    if (!this.mayDiscard()) {
      box.checked = !box.checked;
      return;
    }
    this.adapted = box.checked;
    writeSettings(this.settings);
    if (this.view.text) return this.tag(true);
    await this.onLanguage(this.box.code);
    byId(box.id)?.focus(); // it was drawn again
  }

  tagExample({ lang, name, task, text }) {
    if (!this.mayDiscard()) return;
    this.source.set(text);
    this.box.set(lang, name);
    this.form.elements.task.value = task ?? "";
    writeSettings(this.settings);
    this.tag(true);
  }

  /** Whether corrections that were not kept may be thrown away. */
  mayDiscard() {
    const count = this.view.text?.unsavedCount ?? 0;
    return !count || window.confirm(t("leave.corrections", { n: count }));
  }

  async tag(asked = false) {
    const { lang, task, em, adapted } = this.settings;
    const texts = this.source.texts(lang);
    if (!texts.length) {
      this.showError(new Error(t("text.missing")));
      byId("text").focus();
      return;
    }
    if (!asked && !this.mayDiscard()) return;
    this.running?.abort();
    const running = (this.running = new AbortController());
    this.show(null);
    this.setBusy(true);
    try {
      const body = { task: task || null, adapted, ...emFields(em) };
      const guess = lang === "auto" && this.source.sentences ? await this.guess(running.signal) : null;
      const named = guess ? this.source.texts(guess.code) : texts;
      const answer = await tagTexts({ ...body, texts: named }, running.signal);
      this.show(new TaggedText(answer), guess?.guessed ?? answer[0].language.guessed, em);
      byId("result-heading").focus();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.onLanguage(this.box.code); // what stood there belonged to the text before
      this.showError(error);
    } finally {
      if (this.running === running) this.setBusy(false);
    }
  }

  /** One language for all sentences of a file; each alone would be too short to guess from. */
  async guess(signal) {
    const beginning = this.source.text.slice(0, GUESS_FROM);
    const [answer] = await tagTexts({ texts: [{ text: beginning, lang: "auto" }], em: false }, signal);
    return answer.language;
  }

  setBusy(busy) {
    byId("result").setAttribute("aria-busy", String(busy));
    byId("submit").textContent = t(busy ? "form.busy" : "form.submit");
    if (!busy) return;
    const loading = el(
      "div",
      { class: "loading" },
      el("p", {}, t("result.loading")),
      el("p", { class: "hint" }, t("result.loading_long")),
    );
    this.showMessage(loading);
    byId("message").scrollIntoView({ block: "nearest" });
    announce(`${t("result.loading")} ${t("result.loading_long")}`);
  }

  /** Show a tagged text and the language beside it; null for nothing. */
  show(text, guessed = null, em = "") {
    this.view.show(text);
    this.panel.reset(em === "" ? null : Number(em), this.adapted);
    byId("download").hidden = !text;
    this.showMessage();
    this.showSummary();
    if (!text) return;
    const warnings = [...new Set(text.texts.flatMap((one) => one.warnings))];
    const { code } = text.texts[0].language;
    showLanguage(code, { guessed, warnings, tasks: text.tasks, adapted: this.adapted }).catch((error) => this.showError(error));
    const counts = {
      sentences: t("result.sentences", { n: text.sentences.length }),
      words: t("result.words", { n: text.wordCount }),
    };
    announce(t("result.done", counts));
  }

  showSummary() {
    const { text } = this.view;
    const parts = [];
    if (text) {
      parts.push(t("result.sentences", { n: text.sentences.length }), t("result.words", { n: text.wordCount }));
      if (text.uncertainCount) parts.push(t("result.uncertain", { n: text.uncertainCount }));
      if (text.correctionCount) parts.push(t("result.corrected", { n: text.correctionCount }));
    }
    byId("summary").textContent = parts.length ? `${parts.join(" · ")}. ${t("result.hint")}` : "";
  }

  showMessage(...nodes) {
    byId("message").replaceChildren(...nodes);
  }

  /** No message; where there is no result, what to do. */
  clearMessage() {
    this.showMessage(...(this.view.text ? [] : [el("p", { class: "empty" }, t("result.empty"))]));
  }

  clearError() {
    if (byId("message").querySelector(".error")) this.clearMessage();
  }

  showError(error) {
    const box = el(
      "div",
      { class: "notice error", role: "alert" },
      el("h3", {}, t("error.heading")),
      el("p", {}, error.message),
    );
    this.showMessage(box);
    box.scrollIntoView({ block: "nearest" });
  }
}

await loadTexts();
fillTexts(document);
const page = new Page();
page.start().catch((error) => page.showError(error));
