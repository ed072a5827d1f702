"""What it is worth, without training, to leave out marks on input, and to weight sources more or less sharply.

    python scripts/marks.py --data DATA        # the rule is in scripts/plans/README.md

All languages are unknown to the taggers: those of DATA/more for all-pos and all-ner, which have not learnt from them.
``marked`` puts an acute (odd sentences) or a macron (even ones) on a vowel of each word, always the same in one word.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from scores import DATA, DOCS, commit, markdown
from ship import SHIPPED
from strange_text import shifted

from zgul.corpora.data_folder import DataFolder
from zgul.corpora.sentence import Sentence
from zgul.evaluation import scores
from zgul.tagger import Tagger, load_tagger
from zgul.tagging.loading import load_shipped
from zgul.tagging.serving import learnt_from

ROWS = DOCS / "results" / "marks" / "left-out.jsonl"
LANGUAGES = {
    "all-pos": ("af", "da", "hr", "bg", "nl", "uk", "la", "pl", "sv", "sk", "grc", "nb", "nn"),
    "all-ner": ("bbj", "fon", "mos", "xh", "zu"),
}
TAGGERS = ("germanic-pos", "slavic-pos", "all-pos")
LAST = ("stress, pieces", "stress, sentences")
WEIGHTED = ("da", "nl", "bg", "hr", "uk", "la", "grc")
SHARE = 0.25  # of the words of a sentence: if fewer have fewer pieces without marks, the sentence stays as it is
SENTENCES, ENOUGH = 80, 5  # of each dev set; how often a letter must occur in the sources to be known
VOWELS = set("aeiouyаеиоуыэюяіїєαεηιουω")
ACUTE, MACRON, GRAVE = "\u0301", "\u0304", "\u0300"
STRESS = {ACUTE, MACRON, GRAVE, "\u0302", "\u030d", "\u030f", "\u0311"}  # and marks of length and tone
WEIGHTS = {"lang2vec": "bilinear", "fusion": "query"}
SHARPER = {"lang2vec x0": ("lang2vec", 0.0), "lang2vec x2": ("lang2vec", 2.0), "lang2vec x4": ("lang2vec", 4.0)}
SHARPER |= {"fusion x0.5": ("fusion", 0.5), "fusion x2": ("fusion", 2.0)}

TITLES = {
    "no": "as before",
    "unknown": "from letters that the sources do not have",
    "pieces": "from words that have fewer pieces then",
    "unknown, pieces": "both together",
    "stress, pieces": "the second, but accents and macrons alone",
    "stress, sentences": "the same, in sentences that are full of them",
}

Fold = Callable[[Sequence[str]], list[str]]


# --- forms of a dev set


def marked(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The same sentences with a stress mark (odd ones) or a length mark on a vowel of each word."""
    return [
        replace(sentence, words=[mark(word, ACUTE if number % 2 else MACRON) for word in sentence.words])
        for number, sentence in enumerate(sentences)
    ]


def mark(word: str, sign: str) -> str:
    """The word with this mark on one of the vowels that have none. Short words stay as they are."""
    letters = units(word)
    places = [n for n, letter in enumerate(letters) if letter.lower() in VOWELS]
    if len(letters) < 3 or not places:
        return word
    letters[places[zlib.crc32(word.lower().encode()) % len(places)]] += sign
    return unicodedata.normalize("NFC", "".join(letters))


FORMS: dict[str, Callable[[Sequence[Sentence]], list[Sentence]]] = {
    "as it is": list,
    "shifted": shifted,
    "marked": marked,
    "shifted, marked": lambda sentences: marked(shifted(sentences)),
}


# --- ways to leave out marks


def units(word: str) -> list[str]:
    """Letters with the marks that follow them, each composed."""
    found: list[str] = []
    for character in unicodedata.normalize("NFC", word):
        if found and unicodedata.combining(character):
            found[-1] += character
        else:
            found.append(character)
    return found


def is_mark(character: str) -> bool:
    """A mark above or below a letter: no vowel sign, no virama and no cedilla."""
    return unicodedata.combining(character) in (220, 230)


def bare(text: str, leave: Callable[[str], bool] = is_mark) -> str:
    """The text without the marks that are to be left out."""
    kept = "".join(character for character in unicodedata.normalize("NFD", text) if not leave(character))
    return unicodedata.normalize("NFC", kept)


def ways(tagger: Tagger, known: set[str]) -> dict[str, Fold]:
    """Each way to leave out marks, by name. ``known`` are the letters (with marks) of the sources."""

    def unknown(word: str) -> str:
        return "".join(
            bare(unit) if unit.lower() not in known and bare(unit).lower() in known else unit for unit in units(word)
        )

    def shorter(words: Sequence[str], fold: Callable[[str], str]) -> list[str]:
        """Fold only words that are cut into fewer pieces then."""
        other = [fold(word) for word in words]
        pairs = zip(tagger.pieces.pieces(words), tagger.pieces.pieces(other), strict=True)
        better = [len(after) < len(before) for before, after in pairs]
        return [new if use else word for word, new, use in zip(words, other, better, strict=True)]

    def stress(words: Sequence[str]) -> list[str]:
        return shorter(words, lambda word: bare(word, STRESS.__contains__))

    def changed(words: Sequence[str]) -> int:
        return sum(word != other for word, other in zip(words, stress(words), strict=True))

    return {
        "unknown": lambda words: list(map(unknown, words)),
        "pieces": lambda words: shorter(words, bare),
        "unknown, pieces": lambda words: shorter(words, unknown),
        "stress, pieces": stress,
        "stress, sentences": lambda words: stress(words) if changed(words) >= SHARE * len(words) else list(words),
    }


def letters_of(sentences: Iterable[Sentence]) -> set[str]:
    """The letters, in lower case with their marks, that occur a few times."""
    words = Counter(word for sentence in sentences for word in sentence.words)
    counts: Counter[str] = Counter()
    for word, times in words.items():
        for unit in units(word.lower()):
            counts[unit] += times
    return {unit for unit, count in counts.items() if count >= ENOUGH}


# --- measuring


def sample(data: Path, task: str, language: str, split: str = "dev") -> list[Sentence]:
    sentences = [one for one in DataFolder(data).sentences(task, language, split) if 0 < len(one.words) < 60]
    random.Random(1).shuffle(sentences)
    return sentences[:SENTENCES]


def tags(tagger: Tagger, sentences: Sequence[Sentence]) -> list[list[str]]:
    return [one.tags for one in tagger.predict(sentences, strategy="plain")]


def measure_folding(tagger: Tagger, sentences: Sequence[Sentence], folds: dict[str, Fold]) -> dict[str, float]:
    """F1 as it is ("no") and with each way. Sentences that come out the same are not tagged again."""
    gold, known, f1 = [one.tags or [] for one in sentences], {}, {}
    for name, fold in {"no": list, **folds}.items():
        new = [replace(one, words=fold(one.words)) for one in sentences]
        waiting = [one for one in new if tuple(one.words) not in known]
        known |= {tuple(one.words): own for one, own in zip(waiting, tags(tagger, waiting), strict=True)}
        f1[name] = round(scores(gold, [known[tuple(one.words)] for one in new]).f1, 2)
    return f1


def sharper(tagger: Tagger, view: str, times: float) -> Tagger:
    """The tagger with the scores of lang2vec or fusion multiplied."""
    model = deepcopy(tagger.model)
    with torch.no_grad():
        for layer in getattr(model.weighting, view):
            scaled = layer.bilinear if view == "lang2vec" else layer.query
            for value in [scaled] if isinstance(scaled, torch.Tensor) else scaled.parameters():
                value *= times
    return replace(tagger, model=model)


def rows() -> list[dict[str, Any]]:
    return list(map(json.loads, ROWS.read_text("utf-8").splitlines())) if ROWS.is_file() else []


def measure(data: Path) -> None:
    """Add each figure that is missing to the file of results."""
    made = commit()
    done = {(row["part"], row["tagger"], row["language"], row["form"]) for row in rows()}

    def add(part: str, tagger: str, language: str, form: str, f1: Callable[[], dict[str, float]]) -> None:
        if (part, tagger, language, form) not in done:
            row = {"part": part, "tagger": tagger, "language": language, "form": form, "f1": f1()}
            with ROWS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row | {"commit": made}) + "\n")

    for name, languages in LANGUAGES.items():
        forms = FORMS if name == "all-pos" else ("as it is",)
        if not {("folding", name, code, form) for code in languages for form in forms} - done:
            continue  # reading the sources takes a minute
        tagger, task = load_shipped(name, precision="auto"), name.rpartition("-")[2]  # as zgul tag runs it
        sources = [one for code in tagger.sources for one in DataFolder(data).sentences(task, code, "train")]
        folds = {way: fold for way, fold in ways(tagger, letters_of(sources)).items() if way not in LAST}
        for code in languages:
            for form in forms:
                sentences = FORMS[form](sample(data / "more", task, code))
                add("folding", name, code, form, partial(measure_folding, tagger, sentences, folds))
    for name in TAGGERS:
        tagger = load_shipped(name, precision="auto")
        folds = {way: fold for way, fold in ways(tagger, set()).items() if way in LAST}
        for code in learnt_from(tagger.sources, tagger.about):
            place = data if (data / "pos" / code).is_dir() else data / "more"
            add("sources", name, code, "as it is", partial(measure_folding, tagger, sample(place, "pos", code), folds))
        for code, form in product(LANGUAGES["all-pos"], FORMS) if name == "all-pos" else ():
            sentences = FORMS[form](sample(data / "more", "pos", code))
            add("sentences", name, code, form, partial(measure_folding, tagger, sentences, folds))
    plain = load_tagger(SHIPPED / "all-pos")
    variants = {"no": plain} | {key: sharper(plain, *how) for key, how in SHARPER.items()}
    for code, form in [(code, form) for code in WEIGHTED for form in ("as it is", "shifted")]:
        sentences = FORMS[form](sample(data / "more", "pos", code))
        add("weighting", "all-pos", code, form, partial(measure_weighting, variants, sentences))


def measure_weighting(taggers: dict[str, Tagger], sentences: Sequence[Sentence]) -> dict[str, float]:
    gold = [one.tags or [] for one in sentences]
    return {name: round(scores(gold, tags(tagger, sentences)).f1, 2) for name, tagger in taggers.items()}


def figures(part: str, tagger: str, form: str) -> dict[str, dict[str, float]]:
    """The F1 of each way, by language. Those of the way that was added later are in a part of their own."""
    parts, found = (part, "sentences") if part == "folding" else (part,), dict[str, dict[str, float]]()
    for row in rows():
        if row["part"] in parts and (row["tagger"], row["form"]) == (tagger, form):
            found[row["language"]] = found.get(row["language"], {}) | row["f1"]
    return found


def means(part: str, tagger: str, form: str) -> dict[str, float]:
    """The mean F1 over languages of each way that was measured on all of them."""
    found = list(figures(part, tagger, form).values())
    names = [name for name in max(found, key=len, default={}) if all(name in f1 for f1 in found)]
    return {name: mean(f1[name] for f1 in found) for name in names}


def table(*columns: tuple[str, str, str, str]) -> str:
    """A row for each way, a column for each part, tagger and form (with its title)."""
    found = [means(*column) for _, *column in columns]
    names = dict.fromkeys(name for column in found for name in column)
    body = [[TITLES.get(name, name), *(f"{f1[name]:.1f}" if name in f1 else "–" for f1 in found)] for name in names]
    return markdown(["", *(title for title, *_ in columns)], body)


def choose() -> dict[str, str]:
    """The way that points 1 to 3 of the rule adopt for each task, if any. The table of the sources is for point 4."""
    by_form = {form: means("folding", "all-pos", form) for form in FORMS}
    bare = [figures("folding", "all-pos", form) for form in ("as it is", "shifted")]
    entities, passed = means("folding", "all-ner", "as it is"), {"pos": list[str](), "ner": list[str]()}
    for name in list(by_form["marked"])[1:]:
        change = {form: f1[name] - f1["no"] for form, f1 in by_form.items()}
        worst = min(mean(form[code][name] - form[code]["no"] for form in bare) for code in bare[0])
        enough = change["marked"] + change["shifted, marked"] >= 2.0 and change["as it is"] + change["shifted"] >= -0.2
        if enough and worst >= -1.0:
            passed["pos"].append(name)
            passed["ner"] += [name] if entities.get(name, -1.0) - entities["no"] >= -0.1 else []
    chosen = {}
    for task, names in passed.items():
        f1 = {name: mean(form[name] for form in by_form.values()) for name in names}
        chosen[task] = next((name for name in names if f1[name] >= max(f1.values()) - 0.3), "")
    return chosen


def folding_table() -> str:
    forms = [(form, "folding", "all-pos", form) for form in FORMS]
    return table(*forms, ("entities, as it is", "folding", "all-ner", "as it is"))


def weighting_table() -> str:
    return table(*((form, "weighting", "all-pos", form) for form in ("as it is", "shifted")))


def sources_table() -> str:
    return table(*((name, "sources", name, "as it is") for name in TAGGERS))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    measure(parser.parse_args(arguments).data)
    print("adopted:", choose())
    print(folding_table(), sources_table(), weighting_table(), sep="\n")


if __name__ == "__main__":
    main()
