"""Make everything that ships with the package again, from raw data: ``make recipe`` on a GPU machine.

    python scripts/recipe.py --data DIR --output RUN [--to src/zgul/tagging/shipped]

1. the embedded encoder with only the pieces that occur in the data, so that masked LM scores fewer of them
2. the language adapters of the eleven sources (embedded_adapters.py, variant mixed)
3. the taggers and, to compare with, SFT-M under the same noise and labels (embedded_taggers.py, plans/taggers.json)
4. all of it into the package (ship.py) and the cards and tables (cards.py)

A step whose results are in RUN is not repeated. ``--dry`` takes few steps and small sizes and leaves the docs alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
import cards
import embedded_adapters
import embedded_taggers
import ship
from scores import commit

from zgul import encoders
from zgul.corpora import columns
from zgul.languages import SOURCES
from zgul.tensors import write_json

PLAN = Path(__file__).with_name("plans") / "taggers.json"
DRY_ADAPTERS = ["--size=8", "--blocks=2", "--head-steps=2", "--shared-steps=2", "--steps=2", "--workers=0"]
DRY_RUN = {"epochs": 1, "limit": 20, "batch_size": 8}


def prune(data: Path, output: Path) -> str:
    """The embedded encoder without the pieces that the data never uses; the tags are the same."""
    from zgul.encoders.pruning import pieces_used
    from zgul.encoders.pruning import prune as keep_pieces
    from zgul.encoders.q4 import save_q4

    path = output / "encoder.q4.safetensors"
    if not path.is_file():
        words: Counter[str] = Counter()
        for language in sorted({file.name.split(".")[0] for file in (data / "text").iterdir()}):
            limit = 900_000 if language in SOURCES else embedded_adapters.TARGET_WORDS
            for line in embedded_adapters.sampled(data, language, limit):
                words.update(line.split())
        often = [word for word, count in words.items() if count > 1]
        for file in data.glob("*/*/*.tsv*"):  # labelled words count however rare they are
            often += [word for sentence in columns.read(file, task=None) for word in sentence.words]
        model, tokenizer = encoders.load("embedded")
        save_q4(*keep_pieces(model, tokenizer, pieces_used(tokenizer, dict.fromkeys(often))), path)
    return str(path)


def plan(output: Path, dry: bool) -> Path:
    """The plan of the taggers; in a dry run every tagger learns little."""
    if not dry:
        return PLAN
    runs: list[dict[str, Any]] = json.loads(PLAN.read_text())
    for run in runs:
        run["config"] |= DRY_RUN
        run["em"] = False
        run["strategies"] = ["plain"]
        if rank := run["config"].get("options", {}).get("encoder_rank"):
            run["config"]["options"]["encoder_rank"] = min(rank, 2)
    path = output / "plan.json"
    path.write_text(json.dumps(runs))
    return path


def write_provenance(output: Path, command: list[str]) -> None:
    """How the run was made, for the cards."""
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    made = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "machine": f"{machine}, torch {torch.__version__}"}
    told = made | {"seed": 0, "command": " ".join(["python", *command])}
    write_json(output / "provenance.json", {"adapters": told, "taggers": told})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of text/, pos/ and ner/")
    parser.add_argument("--output", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--to", type=Path, default=ship.SHIPPED, help="folder to ship to")
    parser.add_argument("--encoder", help="another encoder (default: the embedded one, pruned)")
    parser.add_argument("--jobs", type=int, default=4, help="taggers that train side by side")
    parser.add_argument("--dry", action="store_true")
    told = parser.parse_args(arguments)
    told.output.mkdir(parents=True, exist_ok=True)
    data, output = str(told.data), str(told.output)
    encoder = told.encoder or prune(told.data, told.output)
    common = ["--data", data, "--output", output, "--encoder", encoder]

    adapters = told.output / "adapters-mixed.safetensors"
    if not adapters.is_file():
        embedded_adapters.main([*common, *(DRY_ADAPTERS if told.dry else [])])
    results = told.output / "results.jsonl"
    if not results.is_file():
        jobs = "0" if told.dry else str(told.jobs)
        chosen = plan(told.output, told.dry)
        embedded_taggers.main([str(chosen), *common, "--adapters", output, "--jobs", jobs])
    planned = [run["name"] for run in json.loads(PLAN.read_text())]
    if missing := sorted(set(planned) - set(ship.results(results))):
        sys.exit(f"{', '.join(missing)}: not done; see the errors in {results}, remove it and start again")
    ship.main([output, "--adapters", str(adapters), "--to", str(told.to)])
    write_provenance(told.output, sys.argv if arguments is None else ["scripts/recipe.py", *arguments])
    if told.dry:
        cards.main(["--results", output, "--shipped", str(told.to), "--docs", output])
    else:
        cards.keep(told.output)
        cards.main(["--shipped", str(told.to)])


if __name__ == "__main__":
    main()
