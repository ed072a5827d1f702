/** What is to be tagged: text that was written or pasted, or a file that the service has read. */

import { getExamples, readFile } from "./api.js";
import { announce, byId, el } from "./dom.js";
import { t } from "./texts.js";

export class Source {
  /**
   * @param {(error: Error) => void} onError
   * @param {() => void} onRead  called when a file was read
   */
  constructor(onError, onRead) {
    this.onError = onError;
    this.onRead = onRead;
    this.area = byId("text");
    this.note = byId("file-note");
    this.clearButton = byId("clear");
    /** @type {{words: string[]}[] | null} */
    this.sentences = null; // of a file that is divided into words already
    this.area.placeholder = t("text.placeholder");
    this.area.addEventListener("input", () => this.count());
    this.clearButton.addEventListener("click", () => {
      this.set("");
      this.area.focus();
    });
    this.setUpFiles(byId("drop"), byId("choose"), byId("file"));
    this.count();
  }

  /** The text as it is shown. */
  get text() {
    return this.area.value;
  }

  set(text) {
    this.sentences = null;
    this.area.readOnly = false;
    this.area.value = text;
    this.showNote("");
    this.count();
  }

  /** The entries for a request of /v1/tag, all in one language. */
  texts(lang) {
    if (this.sentences) return this.sentences.map(({ words }) => ({ words, lang }));
    return this.text.trim() ? [{ text: this.text, lang }] : [];
  }

  count() {
    const words = this.text.match(/\S+/g)?.length ?? 0;
    byId("text-count").textContent = words ? t("text.words", { n: words }) : "";
    this.clearButton.hidden = !this.text;
  }

  showNote(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  setUpFiles(drop, choose, input) {
    choose.addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      if (input.files[0]) this.read(input.files[0]);
      input.value = "";
    });
    const carriesFile = (event) => event.dataTransfer?.types.includes("Files");
    // wherever on the page a file is dropped, it is read; the browser would leave the page for it
    window.addEventListener("dragover", (event) => {
      if (!carriesFile(event)) return;
      event.preventDefault();
      drop.classList.add("over");
    });
    window.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) drop.classList.remove("over");
    });
    window.addEventListener("drop", (event) => {
      drop.classList.remove("over");
      if (!carriesFile(event)) return;
      event.preventDefault();
      this.read(event.dataTransfer.files[0]);
    });
  }

  /** @param {File} file */
  async read(file) {
    const { name } = file;
    this.showNote(t("text.reading", { name }));
    try {
      const answer = await readFile(file);
      if (answer.sentences) this.setSentences(name, answer.sentences);
      else this.set(answer.text);
      this.showNote([this.note.textContent, ...answer.warnings].join(" ").trim());
      this.onRead();
      announce(t("text.read", { name }));
    } catch (error) {
      this.showNote("");
      this.onError(error);
    }
  }

  setSentences(name, sentences) {
    this.set(sentences.map(({ words }) => words.join(" ")).join("\n"));
    this.sentences = sentences;
    this.area.readOnly = true;
    this.showNote(t("text.sentences", { name, n: sentences.length }));
  }
}

/** Show the examples as buttons. @param {(example: any) => void} onChoose */
export async function showExamples(onChoose) {
  const examples = await getExamples();
  const button = (example) =>
    el(
      "button",
      {
        type: "button",
        class: "chip",
        title: t("examples.title", { name: example.name }),
        onclick: () => onChoose(example),
      },
      example.name,
    );
  byId("examples").replaceChildren(...examples.map((example) => el("li", {}, button(example))));
}
