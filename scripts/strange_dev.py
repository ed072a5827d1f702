"""Choose between trained taggers by the sources' dev sets, as they are and made strange: without any target data.

    python scripts/strange_dev.py indo-aryan RUN/taggers/a RUN/taggers/b [--data ../shared/data] [--output FILE.json]

Every tagger is scored without EM on the dev set of each source of the group: as it is, with an edit in every second
word ("noised") and with a fifth of the letters regularly replaced ("shifted"), two stand-ins for a related language
that the encoder has never read. The best mean over sources and forms is the choice.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parent))
from embedded_taggers import SHIFTS, load_saved
from scores import ROOT, markdown
from ship import SHIPPED

from zgul import corpora
from zgul.errors import ZgulError
from zgul.evaluation import scores
from zgul.languages import GROUPS
from zgul.methods.tagger import Tagger
from zgul.tensors import write_json
from zgul.training.data import SPLITS


def score(tagger: Tagger, group: str, data: Path, count: int) -> dict[str, dict[str, float]]:
    """F1 by form and source."""
    found: dict[str, dict[str, float]] = {}
    for source in tagger.parts.sources:
        dev = corpora.load(data, tagger.task, source, SPLITS.get((group, source), "") + "dev")
        sentences = [s for s in dev if 0 < len(s.words) < 100 and s.tags]
        random.Random(1).shuffle(sentences)
        sentences = sentences[:count]
        for form, change in SHIFTS.items():
            predicted = tagger.predict(change(sentences), strategy="plain")
            f1 = scores([s.tags or [] for s in sentences], [p.tags for p in predicted]).f1
            found.setdefault(form or "as it is", {})[source] = round(f1, 2)
    return found


def whole(forms: dict[str, dict[str, float]]) -> float:
    return mean(f1 for by_source in forms.values() for f1 in by_source.values())


def table(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """A row for each tagger, the best first."""
    forms = list(next(iter(found.values())))
    order = sorted(found, key=lambda name: -whole(found[name]))
    rows = [
        [f"`{name}`", *(f"{mean(found[name][form].values()):.2f}" for form in forms), f"{whole(found[name]):.2f}"]
        for name in order
    ]
    return markdown(["tagger", *forms, "mean"], rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("taggers", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--adapters", type=Path, default=SHIPPED / "adapters.safetensors")
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--sentences", type=int, default=400, help="of each dev set")
    parser.add_argument("--decode", help="words or sequence, for all alike [each tagger's own]")
    parser.add_argument("--output", type=Path)
    told = parser.parse_args(arguments)
    found = {}
    for folder in told.taggers:
        tagger = load_saved(folder, told.adapters, told.encoder)
        tagger.decode = told.decode or tagger.decode
        found[folder.name] = score(tagger, told.group, told.data, told.sentences)
        print(f"{folder.name}: {whole(found[folder.name]):.2f}", file=sys.stderr)
    print(table(found))
    if told.output:
        write_json(told.output, {"group": told.group, "sentences": told.sentences, "f1": found})


if __name__ == "__main__":
    try:
        main()
    except ZgulError as error:
        sys.exit(f"Error: {error}")
