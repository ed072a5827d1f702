"""Choose between trained taggers without target data, on the sources' dev sets, unchanged and made strange.

    python scripts/strange_dev.py indo-aryan RUN/taggers/a RUN/taggers/b [--data ../shared/data] [--output FILE.json]

Every tagger is scored without EM on the dev set of each source of the group, in all forms of strange_text.py. The best
mean over sources and forms is the choice.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import replace
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parent))
from embedded_taggers import load_saved
from scores import DATA, markdown
from ship import SHIPPED
from strange_text import FORMS

from zgul.corpora.data_folder import DataFolder, source_split
from zgul.errors import ZgulError
from zgul.evaluation import scores
from zgul.files import write_json
from zgul.languages import GROUPS
from zgul.tagger import Tagger

Scores = dict[str, dict[str, float]]  # form -> source -> F1


def score(tagger: Tagger, group: str, data: Path, count: int) -> Scores:
    """F1 on ``count`` sentences of each source's dev set, in every form."""
    result: Scores = {}
    for source in tagger.parts.sources:
        dev = DataFolder(data).sentences(tagger.task, source, source_split(group, source, "dev"))
        sentences = [sentence for sentence in dev if 0 < len(sentence.words) < 100]
        random.Random(1).shuffle(sentences)
        sentences = sentences[:count]
        for form, change in FORMS.items():
            predicted = tagger.predict(change(sentences), strategy="plain")
            f1 = scores([s.tags or [] for s in sentences], [p.tags for p in predicted]).f1
            result.setdefault(form or "as it is", {})[source] = round(f1, 2)
    return result


def whole(forms: Scores) -> float:
    """The mean over forms and sources."""
    return mean(f1 for by_source in forms.values() for f1 in by_source.values())


def table(f1: dict[str, Scores]) -> str:
    """A row for each tagger, the best first."""
    forms = list(next(iter(f1.values())))
    rows = []
    for name in sorted(f1, key=lambda name: -whole(f1[name])):
        by_form = [mean(f1[name][form].values()) for form in forms]
        rows.append([f"`{name}`", *(f"{value:.2f}" for value in (*by_form, whole(f1[name])))])
    return markdown(["tagger", *forms, "mean"], rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("taggers", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--adapters", type=Path, default=SHIPPED / "adapters.safetensors")
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--sentences", type=int, default=400, help="of each dev set")
    parser.add_argument("--decode", help="words or sequence, for all taggers [each tagger's own]")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(arguments)
    f1 = {}
    for folder in given.taggers:
        tagger = load_saved(folder, given.adapters, given.encoder)
        tagger = replace(tagger, decode=given.decode or tagger.decode)
        f1[folder.name] = score(tagger, given.group, given.data, given.sentences)
    print(table(f1))
    if given.output:
        write_json(given.output, {"group": given.group, "sentences": given.sentences, "f1": f1})


if __name__ == "__main__":
    try:
        main()
    except ZgulError as error:
        sys.exit(f"Error: {error}")
