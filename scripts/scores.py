"""F1 of the shipped taggers on the paper's 15 test files, beside the paper's ZGUL: ``make scores``.

    python scripts/scores.py [--data ../shared/data] [--languages fo gsw] [--output docs/results/embedded]

Every file is scored as ``zgul evaluate`` does it, on the CPU. Writes scores.json and scores.md into the output folder
when all 15 were scored.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any, cast

from rich.console import Console

import zgul
from zgul import corpora
from zgul.errors import ZgulError
from zgul.files import atomic_write, shipped_folder
from zgul.json_files import write_json
from zgul.languages import GROUPS, TARGETS, find
from zgul.paper.numbers import ZERO_SHOT, average
from zgul.tagging import evaluation_run
from zgul.tagging.serving import TaskChoice, serving, shipped_names

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results" / "embedded"
PAPER = {code: ZERO_SHOT[name].values["ZGUL"][code] for name, group in GROUPS.items() for code in group.targets}
PAPER_AVERAGES = {group: average(group, "ZGUL") for group in ZERO_SHOT}
GOALS = {"germanic": 59.0, "slavic": 60.5, "african": 60.0, "indo-aryan": 68.0}  # of the shipped taggers
GROUP_OF = {target: group for group in GROUPS.values() for target in group.targets}


def evaluate(language: str, task: str, data: Path) -> dict[str, Any]:
    """What ``zgul evaluate --json`` prints."""
    sentences = corpora.load(data, task, language, "test")
    return evaluation_run.evaluate(zgul.load(language, cast(TaskChoice, task)), sentences).to_dict()


def summary(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Rows of the table: the languages of each group, and its average once all are there."""
    rows = []
    for group in GROUPS.values():
        scored = [target for target in group.targets if target in found]
        for target in scored:
            result = found[target]
            steps = (result["em"] or {}).get("steps", 0)
            f1 = [f"{result['f1']:.1f}", f"{PAPER[target]:.1f}", ""]
            rows.append([str(find(target)), result["model"], str(steps or "–"), str(result["sentences"]), *f1])
        if len(scored) == len(group.targets):
            average = mean(found[target]["f1"] for target in scored)
            goal = f"{GOALS[group.name]:g}: {'reached' if average >= GOALS[group.name] else 'missed'}"
            averages = [f"{average:.1f}", f"{PAPER_AVERAGES[group.name]:.1f}", goal]
            rows.append([f"**{group.name}**", "", "", "", *averages])
    return rows


HEADS = ["language", "tagger", "EM steps", "sentences", "F1", "the paper's ZGUL", "goal"]


def markdown(heads: list[str], rows: list[list[str]], words: int = 1) -> str:
    """A table; all columns but the first ``words`` are figures."""
    rule = ["---"] * words + ["---:"] * (len(heads) - words)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows]) + "\n"


def commit() -> str:
    """The commit of the checkout, if it is one, and whether files differ from it."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty= with changes"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def check(data: Path, languages: list[str]) -> None:
    """Say at once, and not after minutes, what is missing."""
    if not data.is_dir():
        raise ZgulError(
            f"{data}: no such folder. make scores needs the paper's test files as DIR/pos/fo/test.tsv.xz and so on: "
            "make scores DATA=DIR (zgul data list says where they come from)."
        )
    needed = {serving(language, GROUP_OF[language].task).name for language in languages}
    if missing := sorted(needed - set(shipped_names())):
        raise ZgulError(f"not in {shipped_folder()}: {', '.join(missing)}")
    for language in languages:
        task = GROUP_OF[language].task
        if not list((data / task / language).glob("test.*")):
            raise ZgulError(f"{data / task / language} has no test file")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--languages", nargs="+", default=list(TARGETS), choices=TARGETS, metavar="LANG")
    parser.add_argument("--output", type=Path, default=RESULTS)
    told = parser.parse_args(arguments)
    screen = Console(highlight=False)
    check(told.data, told.languages)
    started = time.monotonic()
    found: dict[str, dict[str, Any]] = {}
    for number, language in enumerate(told.languages, start=1):
        result = found[language] = evaluate(language, GROUP_OF[language].task, told.data)
        screen.print(
            f"[{number:2}/{len(told.languages)}] {find(language)!s:28} {result['model']:15} F1 {result['f1']:5.1f}"
            f"   the paper's ZGUL {PAPER[language]:5.1f}   {result['seconds']:6.1f} s",
            soft_wrap=True,
        )
    seconds = time.monotonic() - started
    table = markdown(HEADS, summary(found), words=2)
    print(f"\n{table}\n{seconds:.0f} seconds")
    if set(found) == set(TARGETS):
        import torch

        about = {
            "commit": commit(), "seconds": round(seconds), "threads": torch.get_num_threads(),
            "torch": torch.__version__, "machine": platform.machine(),
        }  # fmt: skip
        write_json(told.output / "scores.json", about | {"scores": found})
        with atomic_write(told.output / "scores.md") as file:
            file.write(f"{table}\nBy `make scores` at commit {about['commit']}, shipped weights, CPU ")
            file.write(f"({about['threads']} threads, {about['seconds']} seconds).\n")


if __name__ == "__main__":
    try:
        main()
    except ZgulError as error:
        sys.exit(f"Error: {error}")
