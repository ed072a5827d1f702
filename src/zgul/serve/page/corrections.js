/** The tagged sentences with the user's corrections. The tagger's own tags are kept, so that each can be undone. */

/** The field of a sentence that holds the tags of a task. */
const FIELDS = { pos: "upos", ner: "ner" };

/** Below this probability a tag is uncertain. */
export const UNCERTAIN = 0.6;

/** PER of B-PER and I-PER; "" of O. A part of speech is its own kind. */
export const kindOf = (tag) => (tag === "O" ? "" : tag.replace(/^[BI]-/, ""));

/**
 * Make IOB2 valid: a name that continues where none began, begins instead.
 * @param {string[]} tags
 */
function repair(tags) {
  return tags.map((tag, index) => {
    if (!tag.startsWith("I-")) return tag;
    const before = index ? tags[index - 1] : "O";
    return kindOf(before) === kindOf(tag) ? tag : `B-${kindOf(tag)}`;
  });
}

export class TaggedText {
  /** @param {any[]} texts  the entries of an answer of /v1/tag */
  constructor(texts) {
    this.texts = texts;
    this.sentences = texts.flatMap((text) => text.sentences);
    this.languages = texts.flatMap((text) => text.sentences.map(() => text.language));
    this.own = this.sentences.map((sentence) => ({ pos: sentence.upos, ner: sentence.ner }));
    this.tags = this.own.map((tags) => ({ pos: tags.pos && [...tags.pos], ner: tags.ner && [...tags.ner] }));
    /** The tasks that were tagged, in order. */
    this.tasks = Object.keys(FIELDS).filter((task) => this.sentences.some((sentence) => sentence[FIELDS[task]]));
    this.changed = false; // since the last download or copy
  }

  /** Whether a tagger ran entropy minimisation. */
  get ranEM() {
    return this.texts.some(({ taggers }) => taggers.some(({ em }) => em));
  }

  tag(task, sentence, word) {
    return this.tags[sentence][task][word];
  }

  ownTag(task, sentence, word) {
    return this.own[sentence][task][word];
  }

  isCorrected(task, sentence, word) {
    return this.tag(task, sentence, word) !== this.ownTag(task, sentence, word);
  }

  /** Whether the tagger was not sure of a tag that the user has not corrected. */
  isUncertain(task, sentence, word) {
    const probability = this.sentences[sentence][`${FIELDS[task]}_probabilities`][word];
    return probability < UNCERTAIN && !this.isCorrected(task, sentence, word);
  }

  /** Set a tag. Returns how many other words of the sentence changed to keep IOB2 valid. */
  correct(task, sentence, word, tag) {
    const tags = this.tags[sentence][task];
    tags[word] = tag;
    this.changed = true;
    if (task !== "ner") return 0;
    const repaired = repair(tags);
    this.tags[sentence].ner = repaired;
    return repaired.filter((one, index) => one !== tags[index]).length;
  }

  count(test) {
    let found = 0;
    for (const [sentence, { words }] of this.sentences.entries()) {
      for (const word of words.keys())
        found += this.tasks.some((task) => test.call(this, task, sentence, word)) ? 1 : 0;
    }
    return found;
  }

  get wordCount() {
    return this.sentences.reduce((sum, sentence) => sum + sentence.words.length, 0);
  }

  get correctionCount() {
    return this.count(this.isCorrected);
  }

  /** How many corrections would be lost now. */
  get unsavedCount() {
    return this.changed ? this.correctionCount : 0;
  }

  get uncertainCount() {
    return this.count(this.isUncertain);
  }

  /** [first, last) word and kind of each name of a sentence. */
  entities(sentence) {
    const tags = this.tags[sentence].ner ?? [];
    const found = [];
    for (const [index, tag] of tags.entries()) {
      if (tag.startsWith("B-")) found.push({ first: index, last: index + 1, kind: kindOf(tag) });
      else if (tag.startsWith("I-")) found.at(-1).last = index + 1;
    }
    return found;
  }

  /** The sentences with the corrections, for the service to write. What a person decided has probability 1. */
  corrected() {
    return this.sentences.map((sentence, number) => {
      const copy = { ...sentence };
      for (const task of this.tasks) {
        const field = FIELDS[task];
        copy[field] = this.tags[number][task];
        copy[`${field}_probabilities`] = sentence[`${field}_probabilities`].map((probability, word) =>
          this.isCorrected(task, number, word) ? 1 : probability,
        );
      }
      return copy;
    });
  }
}
