"""Tag texts with an exported tagger, and print CoNLL-U. Needs only onnxruntime and tokenizers.

python tag.py "Hetta er ein lítil roynd." "Ein annar tekstur."
python tag.py < FILE

In Python: OnnxTagger(FOLDER).tag(words), .tag_all(sentences), .conllu(texts).
"""

import json
import re
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
from tokenizers import Tokenizer

TERMINATORS = ".!?…।॥።؟۔։"
Word = tuple[str, bool]  # a word, and whether a space comes after it


class OnnxTagger:
    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.letters = str.maketrans(self.config["letters"])
        options = SessionOptions()
        options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC  # more makes int8 slower
        path = str(folder / "model.onnx")
        self.session = InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = [one.name for one in self.session.get_inputs()]

    def pieces(self, words: list[str]) -> list[list[int]]:
        """The pieces of the words of a sentence. A sentence full of marks of stress, length or tone is read without."""
        whole = [self.cut(word) for word in words]
        rest = [self.cut(self.bare(word)) for word in words]
        shorter = [len(two) < len(one) for one, two in zip(whole, rest, strict=True)]
        if sum(shorter) < self.config["marked"] * len(words):
            return whole
        return [two if use else one for one, two, use in zip(whole, rest, shorter, strict=True)]

    def bare(self, word: str) -> str:
        parts = unicodedata.normalize("NFD", word)
        bare = "".join(part for part in parts if part not in self.config["marks"])
        return word if len(bare) == len(parts) else unicodedata.normalize("NFC", bare)

    def cut(self, word: str) -> list[int]:
        unknown = self.config["unknown"]
        ids = self.tokenizer.encode([self.config["blank"] + word], is_pretokenized=True, add_special_tokens=False).ids
        if unknown in ids:  # letters that the vocabulary lacks are read as related ones
            related = [self.config["blank"] + word.translate(self.letters)]
            ids = self.tokenizer.encode(related, is_pretokenized=True, add_special_tokens=False).ids or ids
        return ids or [unknown]

    def tag(self, words: list[str]) -> list[str]:
        """Tag the words of one sentence."""
        return self.tag_all([words])[0]

    def tag_all(self, sentences: list[list[str]]) -> list[list[str]]:
        """Tag several sentences, each a list of words."""
        for word in (word for words in sentences for word in words):
            if any(map(str.isspace, word)):
                raise ValueError(f"{word!r} has spaces in it. Give words, or use conllu for texts")
        parts = [self.pieces(words) for words in sentences]
        lengths: dict[int, list[int]] = {}
        for number, part in enumerate(parts):
            length = sum(map(len, part)) + 2
            if length > self.config["max_pieces"]:
                raise ValueError(f"{length} pieces, but the model reads {self.config['max_pieces']}: cut the sentence")
            if part:
                lengths.setdefault(length, []).append(number)
        tags: list[list[str]] = [[] for _ in sentences]
        for numbers in lengths.values():  # sentences of one length need no padding
            rows = [[piece for word in parts[number] for piece in word] for number in numbers]
            batch = np.array([[self.config["begin"], *row, self.config["end"]] for row in rows], dtype=np.int64)
            given = {"input_ids": batch, "attention_mask": np.ones_like(batch)}
            logits = self.session.run(["logits"], {name: given[name] for name in self.inputs})[0]
            for number, scores in zip(numbers, logits, strict=True):
                first = np.cumsum([1, *map(len, parts[number][:-1])])  # a word's scores are at its first piece
                tags[number] = self.decode(scores[first])
        return tags

    def decode(self, scores: np.ndarray) -> list[str]:
        best = self.best_sequence(scores) if self.config["decode"] == "sequence" else scores.argmax(axis=-1)
        tags = [self.config["labels"][index] for index in best]
        for n, tag in enumerate(tags):  # an entity begins with B-
            if tag.startswith("I-") and (n == 0 or tags[n - 1][2:] != tag[2:]):
                tags[n] = "B-" + tag[2:]
        return tags

    def best_sequence(self, scores: np.ndarray) -> list[int]:
        """The labels with the largest sum of scores in which an I-X follows a B-X or I-X (Viterbi)."""
        labels = ["O", *self.config["labels"]]  # the first is for the place before the sentence
        fits = np.array([[b[:2] != "I-" or a[1:] == b[1:] for b in labels[1:]] for a in labels])
        paths, came = np.where(fits[0], scores[0], -np.inf), []
        for row in scores[1:]:
            steps = np.where(fits[1:], paths[:, None], -np.inf)
            came.append(steps.argmax(axis=0))
            paths = steps.max(axis=0) + row
        best = [int(paths.argmax())]
        for row in reversed(came):
            best.append(int(row[best[-1]]))
        return best[::-1]

    def conllu(self, texts: Iterable[str]) -> str:
        """Texts as CoNLL-U, with parts of speech in UPOS, or names in MISC."""
        cut = [split(text) for text in texts]
        tags = iter(self.tag_all([[word for word, _ in sentence] for text in cut for sentence in text]))
        lines = []
        for text in cut:
            for number, sentence in enumerate(text):
                lines += ["# newdoc"] if number == 0 else []
                plain = "".join(word + " " * spaced for word, spaced in sentence).strip()
                lines.append(f"# text = {plain}")
                for n, ((word, spaced), tag) in enumerate(zip(sentence, next(tags), strict=True), start=1):
                    upos, name = (tag, []) if self.config["task"] == "pos" else ("_", [f"NER={tag}"])
                    misc = "|".join(name + ["SpaceAfter=No"] * (not spaced)) or "_"
                    lines.append("\t".join([str(n), word, "_", upos, *"_____", misc]))
                lines.append("")
        return "".join(line + "\n" for line in lines)


def split(text: str) -> list[list[Word]]:
    """Sentences and words of a text, by simple rules: punctuation around a word is cut off."""
    sentences: list[list[Word]] = []
    for paragraph in re.split(r"\n\s*\n", text):
        sentence: list[Word] = []
        ended = False
        for chunk in paragraph.split():
            if ended and not chunk[0].islower():
                sentences.append(sentence)
                sentence = []
            words = cut(chunk)
            sentence += [(word, place == len(words)) for place, word in enumerate(words, start=1)]
            ended = any(mark in TERMINATORS for mark in chunk[-2:])  # also before a closing quote
        sentences += [sentence] if sentence else []
    return sentences


def cut(chunk: str) -> list[str]:
    """A word and the punctuation around it."""
    inner = [n for n, letter in enumerate(chunk) if unicodedata.category(letter)[0] in "LMN"]
    if not inner:
        return [chunk]
    start, end = inner[0], inner[-1] + 1
    return [*chunk[:start], chunk[start:end], *re.findall(r"\.+|.", chunk[end:])]


if __name__ == "__main__":
    texts = sys.argv[1:] or [sys.stdin.read()]
    sys.stdout.write(OnnxTagger(Path(__file__).parent).conllu(texts))
