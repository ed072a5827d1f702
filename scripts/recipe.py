"""Make everything that ships with the package again, from raw data: ``make recipe`` on a GPU machine.

    python scripts/recipe.py --data DIR --output RUN [--to src/zgul/shipped]

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
import ship
from embedded_adapters import TARGET_WORDS, Settings, make_adapters, sampled
from embedded_taggers import Places, run_plan
from scores import DOCS, RESULTS, commit

from zgul import encoders
from zgul.corpora import columns
from zgul.files import write_json
from zgul.languages import SOURCES

PLAN = Path(__file__).with_name("plans") / "taggers.json"
ADAPTERS = "adapters-mixed.safetensors"
DRY_ADAPTERS = Settings(size=8, blocks=2, head_steps=2, shared_steps=2, steps=2)
DRY_TAGGERS = {"epochs": 1, "limit": 20, "batch_size": 8}


def prune(data: Path, output: Path) -> str:
    """Save the embedded encoder without the pieces that the data never uses. The tags stay the same."""
    path = output / "encoder.q4.safetensors"
    if not path.is_file():
        words: Counter[str] = Counter()
        for language in sorted({file.name.split(".")[0] for file in (data / "text").iterdir()}):
            for line in sampled(data, language, Settings.words if language in SOURCES else TARGET_WORDS):
                words.update(line.split())
        used = [word for word, count in words.items() if count > 1]
        for file in data.glob("*/*/*.tsv*"):  # labelled words count however rare they are
            used += [word for sentence in columns.read(file, task=None) for word in sentence.words]
        encoder, tokenizer = encoders.load("embedded")
        encoders.save_q4(*encoders.prune(encoder, tokenizer, encoders.pieces_used(tokenizer, used)), path)
    return str(path)


def dry_plan(output: Path) -> Path:
    """Write the plan of the taggers, with very little training for each."""
    runs: list[dict[str, Any]] = json.loads(PLAN.read_text())
    for run in runs:
        run |= {"config": run["config"] | DRY_TAGGERS, "em": False, "strategies": ["plain"]}
        if rank := run["config"].get("options", {}).get("encoder_rank"):
            run["config"]["options"]["encoder_rank"] = min(rank, 2)
    path = output / "plan.json"
    path.write_text(json.dumps(runs))
    return path


def write_provenance(output: Path, command: str) -> None:
    """Write how the run was made, for the cards."""
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    made = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "machine": f"{machine}, torch {torch.__version__}"}
    made |= {"seed": 0, "command": command}  # type: ignore[dict-item]
    write_json(output / "provenance.json", {"adapters": made, "taggers": made})


def make_all(data: Path, output: Path, to: Path, encoder: str | None = None, jobs: int = 4, dry: bool = False) -> None:
    """Take all steps of the recipe."""
    output.mkdir(parents=True, exist_ok=True)
    encoder = encoder or prune(data, output)
    if not (output / ADAPTERS).is_file():
        make_adapters(data, output, encoder, DRY_ADAPTERS if dry else Settings(), workers=0 if dry else 12)
    results = output / "results.jsonl"
    if not results.is_file():
        run_plan(dry_plan(output) if dry else PLAN, Places(data, output, output, encoder), 0 if dry else jobs)
    planned = [run["name"] for run in json.loads(PLAN.read_text())]
    if missing := sorted(set(planned) - set(ship.read_results(results))):
        sys.exit(f"{', '.join(missing)}: not done. See the errors in {results}, remove this file and start again.")
    ship.ship_run(output, to, output / ADAPTERS)
    write_provenance(output, "python scripts/recipe.py --data DIR --output RUN" + " --dry" * dry)
    if not dry:
        cards.keep(output)
    cards.write_all(output if dry else RESULTS, to, output if dry else DOCS)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of text/, pos/ and ner/")
    parser.add_argument("--output", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--to", type=Path, default=ship.SHIPPED, help="folder to ship to")
    parser.add_argument("--encoder", help="another encoder (default: the embedded one, pruned)")
    parser.add_argument("--jobs", type=int, default=4, help="taggers that train side by side")
    parser.add_argument("--dry", action="store_true")
    make_all(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
