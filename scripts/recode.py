"""Code a shipped tagger in fewer bits, to make room for others. Dev files of its sources show what that costs.

    python scripts/recode.py all-ner indo-aryan-ner --bits 6 --data DIR

The rule is in scripts/plans/README.md, under "adapted taggers for entities". What is measured is kept in
docs/results/embedded/recoded.json, and `scripts/cards.py` puts it on the card. No file of a target is read. Afterwards
`scripts/int8_scores.py` and `make scores` measure the tagger again. Deltas of the tagger no longer fit.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from embedded_taggers import load_saved
from scores import DATA, RESULTS, commit
from ship import SHIPPED

from zgul.corpora.data_folder import DataFolder, source_split
from zgul.corpora.sentence import Sentence
from zgul.evaluation import scores
from zgul.files import read_json, write_json
from zgul.tagger import Tagger
from zgul.tensors import Coded, load_coded, load_with_metadata, save_tensors

FIGURES = RESULTS / "recoded.json"
SENTENCES = 800  # of each dev file
MEAN_LOSS, LOSS = 0.1, 0.3  # F1 that may be lost on the mean of the dev files, and on each


def recode(name: str, bits: int, data: Path) -> dict[str, Any]:
    """Write a shipped tagger again in ``bits`` bits if the dev files of its sources allow it, and say what they say."""
    model = SHIPPED / name / "model.safetensors"
    with TemporaryDirectory() as work:
        coded = Path(shutil.copytree(SHIPPED / name, Path(work) / name)) / model.name
        tensors, metadata = load_with_metadata(model)
        save_tensors(coded, tensors, bits=bits, metadata=metadata)
        f1 = compare(name, coded.parent, data)
        changes = [one["after"] - one["before"] for one in f1.values()]
        facts = {
            "bits": bits,
            "from": max(one.bits for one in load_coded(model)[0].values() if isinstance(one, Coded)),
            "megabytes": [round(path.stat().st_size / 1e6, 2) for path in (model, coded)],
            "dev": f1,
            "recoded": mean(changes) >= -MEAN_LOSS and min(changes) >= -LOSS,
        }
        if facts["recoded"]:
            shutil.copyfile(coded, model)
    return facts


def compare(name: str, coded: Path, data: Path) -> dict[str, dict[str, float]]:
    """F1 and tags of the tagger before and after, in float32 and without EM."""
    before, after = (load_saved(one, SHIPPED / "adapters.safetensors", "embedded") for one in (SHIPPED / name, coded))
    group = before.about["training"].get("group", "")
    devs = {}
    for language in before.parts.sources:
        split = source_split(group, language, "dev")
        devs[language] = DataFolder(data).sentences(before.task, language, split)[:SENTENCES]
    return changes(before, after, devs)


def changes(before: Tagger, after: Tagger, devs: dict[str, list[Sentence]]) -> dict[str, dict[str, float]]:
    """F1 of two taggers on dev sets by language, and the share of equal tags."""
    found = {}
    for language, dev in devs.items():
        gold = [one.tags or [] for one in dev]
        old, new = ([one.tags for one in tagger.predict(dev, strategy="plain")] for tagger in (before, after))
        same = sum(a == b for one, other in zip(old, new, strict=True) for a, b in zip(one, other, strict=True))
        f1 = {"before": scores(gold, old).f1, "after": scores(gold, new).f1}
        found[language] = f1 | {"same_tags": 100 * same / sum(map(len, old))}
        print(f"{language}: F1 {f1['before']:.2f}, now {f1['after']:.2f}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=sorted(path.parent.name for path in SHIPPED.glob("*/config.json")))
    parser.add_argument("--bits", type=int, required=True)
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args()
    figures = read_json(FIGURES) if FIGURES.is_file() else {}
    for name in given.names:
        facts = recode(name, given.bits, given.data)
        figures[name] = facts | {"date": time.strftime("%Y-%m-%d"), "commit": commit()}
        write_json(FIGURES, figures)
        print(f"{name}: {'coded again' if facts['recoded'] else 'stays'}, {facts['megabytes']} MB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
