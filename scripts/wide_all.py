"""Judge taggers over all sources that were trained further on more sources, and keep the figures.

    python scripts/wide_data.py DATA WIDE
    python scripts/embedded_taggers.py scripts/plans/wide-all.json --data WIDE --output RUN --adapters src/zgul/shipped
    python scripts/wide_all.py all-pos RUN --data DATA    # the rule of scripts/plans/README.md

What is measured is kept in docs/results/wide/all.json; `scripts/beyond.py report` writes docs/beyond.md from it. No
file of a target is read.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from embedded_taggers import load_saved
from scores import DATA, DOCS, commit, markdown
from ship import SHIPPED, read_results
from strange_text import ALL_FORMS

from zgul.corpora.data_folder import DataFolder
from zgul.evaluation import scores
from zgul.files import read_json, write_json
from zgul.languages import find
from zgul.tagger import Tagger

FIGURES = DOCS / "results" / "wide" / "all.json"
NAMES = ("all-pos", "all-ner")
LATIN = ("la", "xh", "mos")  # languages left out that are written in Latin letters: romanised, they stay as they are
STRANGE = {"all-pos": (), "all-ner": ("en", "hi", "bn", "ur")}  # sources of before that are also judged made strange
SENTENCES, STRANGE_SENTENCES = 800, 300  # of each dev set
GAIN, LOSS, STRANGE_LOSS = 0.3, 1.0, 0.3  # F1, on average


def left_out(run: Path, name: str) -> dict[str, dict[str, float]]:
    """F1 on the languages left out, before and after, by language and form."""
    results = read_results(run / "results.jsonl")
    found: dict[str, dict[str, float]] = {}
    for when, variant in {"before": "before", "after": "wide"}.items():
        for key, f1 in results[f"{name}:{variant}"]["f1"].items():  # such as grc/dev/shifted/plain
            language, _, *form, _ = key.split("/")
            if not (form == ["romanised"] and language in LATIN):
                found.setdefault("/".join([language, *form]), {})[when] = f1
    return found


def on_sources(folder: Path, name: str, data: Path, keep: Path) -> dict[str, dict[str, float]]:
    """F1 of a tagger on dev sets of the sources of before, as they are and made strange. It is measured once."""
    if keep.is_file():
        return read_json(keep)
    tagger = load_saved(folder, SHIPPED / "adapters.safetensors", "embedded")
    sources = read_json(SHIPPED / name / "config.json")["sources"]
    cases = [("sources", code, "", SENTENCES) for code in sources]
    cases += [("strange", code, form, STRANGE_SENTENCES) for form in ("noised", "shifted") for code in STRANGE[name]]
    found: dict[str, dict[str, float]] = {"sources": {}, "strange": {}}
    for part, code, form, most in cases:
        dev = DataFolder(data).sentences(name.rpartition("-")[2], code, "dev")[:most]
        f1 = scores([sentence.tags or [] for sentence in dev], tags(tagger, ALL_FORMS[form](dev))).f1
        found[part]["/".join(filter(None, [code, form]))] = round(f1, 3)
    write_json(keep, found)
    return found


def tags(tagger: Tagger, sentences: list[Any]) -> list[list[str]]:
    return [prediction.tags for prediction in tagger.predict(sentences, strategy="plain")]


def change(f1: dict[str, dict[str, float]]) -> float:
    """The mean change of F1. Without figures nothing changed."""
    return mean(one["after"] - one["before"] for one in f1.values()) if f1 else 0.0


def judge(name: str, run: Path, data: Path) -> None:
    """Apply the rule to a tagger. One that gains nothing on the languages left out need not be trained."""
    own: dict[str, Any] = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "left out": left_out(run, name)}
    own |= {"sources": {}, "strange": {}}
    if change(own["left out"]) >= GAIN:
        before = on_sources(SHIPPED / name, name, data, run / f"{name}.before.json")
        after = on_sources(run / "taggers" / name, name, data, run / f"{name}.after.json")
        for part, f1 in before.items():
            own[part] = {key: {"before": value, "after": after[part][key]} for key, value in f1.items()}
    record(name, own | {"replaced": replaces(own)})


def replaces(own: dict[str, Any]) -> bool:
    """Whether the rule replaces a tagger with these figures."""
    gain, kept, strange = change(own["left out"]), change(own["sources"]), change(own["strange"])
    return gain >= GAIN and kept >= -LOSS and strange >= -STRANGE_LOSS


def record(name: str, values: dict[str, Any]) -> None:
    """Put values into the figures of a tagger."""
    figures = read_json(FIGURES) if FIGURES.is_file() else {}
    figures[name] = figures.get(name, {}) | values
    write_json(FIGURES, figures)
    print(name, "is replaced" if values["replaced"] else "stays")


def table(figures: dict[str, Any], part: str) -> str:
    """A row for each language and form, and one for the mean of a tagger."""
    rows = []
    for name in (name for name in NAMES if figures.get(name, {}).get(part)):
        f1: dict[str, dict[str, float]] = figures[name][part]
        means = {when: mean(one[when] for one in f1.values()) for when in ("before", "after")}
        for key, one in [*f1.items(), ("", means)]:
            code, _, form = key.partition("/")
            what = " ".join(filter(None, [str(find(code)), form])) if code else "**mean**"
            after = f"**{one['after']:.1f}**"
            rows.append([name, what, f"{one['before']:.1f}", after, f"{one['after'] - one['before']:+.1f}"])
    return markdown(["tagger", "language", "before", "after", "change"], rows, words=2)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args(arguments)
    judge(given.name, given.run, given.data)


if __name__ == "__main__":
    main()
