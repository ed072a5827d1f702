"""Tag one sentence with an exported tagger. Needs only onnxruntime and tokenizers.

python tag.py Hetta er ein lítil roynd .
"""

import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from tokenizers import Tokenizer


class OnnxTagger:
    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.letters = str.maketrans(self.config["letters"])
        self.session = InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])

    def pieces(self, word: str) -> list[int]:
        unknown = self.config["unknown"]
        ids = self.tokenizer.encode([self.config["blank"] + word], is_pretokenized=True, add_special_tokens=False).ids
        if unknown in ids:  # letters that the vocabulary lacks are read as related ones
            related = [self.config["blank"] + word.translate(self.letters)]
            ids = self.tokenizer.encode(related, is_pretokenized=True, add_special_tokens=False).ids or ids
        return ids or [unknown]

    def tag(self, words: list[str]) -> list[str]:
        if spaced := [word for word in words if any(map(str.isspace, word))]:
            raise ValueError(
                f"{spaced[0]!r} has spaces in it. tag takes the words of one sentence; for several, tag_all"
            )
        rows = [self.pieces(word) for word in words]
        ids = [self.config["begin"], *(piece for row in rows for piece in row), self.config["end"]]
        if len(ids) > self.config["max_pieces"]:
            raise ValueError(f"{len(ids)} pieces, but the model reads {self.config['max_pieces']}: cut the sentence")
        batch = np.array([ids], dtype=np.int64)  # several sentences: pad them with config["pad"], the mask with 0
        logits = self.session.run(["logits"], {"input_ids": batch, "attention_mask": np.ones_like(batch)})[0]
        first = np.cumsum([1] + [len(row) for row in rows[:-1]])  # a word's scores are at its first piece
        scores = logits[0, first]
        best = self.best_sequence(scores) if self.config["decode"] == "sequence" else scores.argmax(axis=-1)
        tags = [self.config["labels"][index] for index in best]
        for n, tag in enumerate(tags):  # an entity begins with B-
            if tag.startswith("I-") and (n == 0 or tags[n - 1][2:] != tag[2:]):
                tags[n] = "B-" + tag[2:]
        return tags

    def tag_all(self, sentences: list[list[str]]) -> list[list[str]]:
        """Tag several sentences, each a list of words."""
        return [self.tag(words) for words in sentences]

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


if __name__ == "__main__":
    words = sys.argv[1:]
    for word, tag in zip(words, OnnxTagger(Path(__file__).parent).tag(words), strict=True):
        print(word, tag, sep="\t")
