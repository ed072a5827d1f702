"""Results as one JSON file that can be published: ``.json``, ``.json.gz``, ``.json.xz``.

Format 2 holds notes, runs, scores with their predictions, gold tags and the analyses of `zgul.paper.analyses`. A tag is
one character ("tags" is the key to them), a predicted tag that is right is a dot, and a space stands between sentences.
The words of the test files are included only on request, because not every licence allows passing them on. Format 1
had neither predictions nor gold tags. Both are read.
"""

import json
import sqlite3
import string
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.files import DAMAGED, create_binary, open_binary
from zgul.paper.analyses import analyse
from zgul.paper.store import DONE, SCHEMA, Score, Store, StoredRun

Place = Path | str
_LETTERS = string.ascii_letters + string.digits + "".join(map(chr, range(0xC0, 0x250)))


class TagAlphabet(dict[str, str]):
    """A character for each tag, given out in the order in which the tags appear."""

    def __missing__(self, tag: str) -> str:
        return self.setdefault(tag, _LETTERS[len(self)])

    def encode(self, tags: Sequence[Sequence[str] | None]) -> str:
        """The tags of all sentences as one text."""
        return " ".join("".join(map(self.__getitem__, sentence or ())) for sentence in tags)


def open_store(place: Place) -> Store:
    """The results in a folder of ``zgul experiment paper`` or in a file of ``zgul experiment export``."""
    if not Path(place).exists():
        raise ZgulError(f"{place}: no such folder or file; a report is made from the --output of zgul experiment paper")
    return Store(place) if Path(place).is_dir() else Export(place)


def export_results(folder: Place, path: Place, data: Place | None = None, *, sentences: bool = True) -> None:
    """Write the finished runs of a folder of results. The same results give the same bytes.

    ``data`` is the data folder, for the statistics of the data sets. Without ``sentences`` no word of the test files is
    in the export; the gold tags are, so that every F1 can be computed again.
    """
    store, alphabet = Store(folder), TagAlphabet()
    gold: dict[tuple[str, str], dict[str, Any]] = {}
    for group, language in store.gold_keys():
        test = store.gold(group, language)
        words = {"words": ["\t".join(sentence.words) for sentence in test]} if sentences else {}
        tags = alphabet.encode([sentence.tags for sentence in test])
        gold[group, language] = {"group": group, "language": language, "tags": tags, **words}
    runs = {run.hash: run for run in store.runs(status=DONE)}
    scores = []
    for score in (score for score in store.scores() if score.run in runs):
        tags = alphabet.encode(store.predictions(score.run, score.row, score.language))
        right = gold[runs[score.run].group, score.language]["tags"]
        dotted = "".join("." if a == b != " " else a for a, b in zip(tags, right, strict=True))
        scores.append(asdict(score) | {"tags": dotted})
    whole = {
        "format": 2,
        "meta": store.meta,
        "runs": [asdict(run) for run in runs.values()],
        "scores": scores,
        "gold": list(gold.values()),
        "tags": {letter: tag for tag, letter in alphabet.items()},
        "analyses": analyse(store, data, sentences=sentences),
    }
    with create_binary(path) as file:
        file.write((json.dumps(whole, ensure_ascii=False, sort_keys=True, indent=1) + "\n").encode())


class Export(Store):
    """Results read from an export into memory. Predictions and sentences are there if the file carries them."""

    def __init__(self, path: Place) -> None:
        self.folder = Path(path)
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.executescript(SCHEMA)
        with open_binary(path) as file:
            try:
                self._load(json.loads(file.read()))
            except (ValueError, KeyError, TypeError, *DAMAGED) as error:
                raise ZgulError(f"{path} is not an export of results ({error}); see: zgul experiment export") from error

    def _load(self, whole: dict[str, Any]) -> None:
        self.analyses, key = dict(whole["analyses"]), whole.get("tags", {})

        def decode(text: str, right: str) -> list[list[str]]:
            filled = "".join(b if a == "." else a for a, b in zip(text, right, strict=True))
            return [[key[letter] for letter in sentence] for sentence in filled.split(" ")]

        self.note(**whole["meta"])
        self.plan(StoredRun(**run) for run in whole["runs"])
        gold = {(entry["group"], entry["language"]): entry for entry in whole.get("gold", [])}
        self.has_sentences = any("words" in entry for entry in gold.values())
        for place, entry in gold.items():
            tags = decode(entry["tags"], entry["tags"])
            lines = entry.get("words") or ["\t" * (len(sentence) - 1) for sentence in tags]
            words = (line.split("\t")[: len(sentence)] for line, sentence in zip(lines, tags, strict=True))
            self.add_gold(*place, list(map(Sentence, words, tags)))
        group_of = {run["hash"]: run["group"] for run in whole["runs"]}
        for score in whole["scores"]:
            said = score.pop("tags", None)
            place = (group_of[score["run"]], score["language"])
            self.add_score(Score(**score), None if said is None else decode(said, gold[place]["tags"]))
