"""Score the shipped taggers on the paper's 15 test files, beside the paper's ZGUL: ``make scores``.

    python scripts/scores.py [--data ../shared/data] [--languages fo gsw] [--output docs/results/embedded]

Every file is scored as ``zgul evaluate`` does it, on the CPU: zero-shot, and by the adapted tagger where one ships.
scores.json and scores.md are written into the output folder when all 15 were scored.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from zgul.corpora.data_folder import DataFolder
from zgul.errors import ZgulError
from zgul.files import atomic_write, read_json, shipped_folder, write_json
from zgul.languages import GROUPS, TARGETS, find
from zgul.paper.numbers import ZERO_SHOT, printed_average
from zgul.tagging import evaluation_run
from zgul.tagging.loading import load
from zgul.tagging.serving import serving, shipped_names

ROOT = Path(__file__).resolve().parents[1]
DATA, DOCS = ROOT.parent / "shared" / "data", ROOT / "docs"
RESULTS = DOCS / "results" / "embedded"
GROUP_OF = {target: group for group in GROUPS.values() for target in group.targets}
GOALS = {"germanic": 59.0, "slavic": 60.5, "african": 60.0, "indo-aryan": 68.0}  # of the shipped taggers
HEADS = ["language", "tagger", "EM steps", "sentences", "F1", "adapted", "the paper's ZGUL", "goal"]


def paper_f1(language: str) -> float:
    """The F1 of the paper's ZGUL on a target."""
    return ZERO_SHOT[GROUP_OF[language].name].values["ZGUL"][language]


def evaluate(language: str, folder: DataFolder) -> dict[str, Any]:
    """The scores of the zero-shot tagger on a target's test file, as ``zgul evaluate --json`` prints them.

    ``adapted_f1`` is that of the adapted tagger, if one ships.
    """
    task = GROUP_OF[language].task
    test = folder.sentences(task, language, "test")
    kinds = (False, True) if serving(language, task).base else (False,)
    taggers = [load(language, task, adapted=adapted, precision="float32") for adapted in kinds]
    zero_shot, *adapted = (evaluation_run.evaluate(tagger, test).to_dict() for tagger in taggers)
    return zero_shot | {"adapted_f1": adapted[0]["f1"] if adapted else None}


def note(results: dict[str, dict[str, Any]]) -> None:
    """Note in each tagger's config.json what it scores as it ships, which `zgul languages` shows."""
    for name in {result["model"] for result in results.values()}:
        path = shipped_folder() / name / "config.json"
        config = read_json(path)
        own = {code: round(result["f1"], 3) for code, result in results.items() if result["model"] == name}
        config["about"]["as_shipped"] = own
        write_json(path, config)


def summary(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Rows of the table: the languages of each group, and its average if all of them were scored."""
    rows = []
    for group in GROUPS.values():
        scored = [target for target in group.targets if target in results]
        for target in scored:
            result = results[target]
            steps = str((result["em"] or {}).get("steps") or "–")
            f1 = [f"{result['f1']:.1f}", adapted_f1(result), f"{paper_f1(target):.1f}", ""]
            rows.append([str(find(target)), result["model"], steps, str(result["sentences"]), *f1])
        if len(scored) == len(group.targets):
            own, goal = mean(results[target]["f1"] for target in scored), GOALS[group.name]
            verdict = f"{goal:g}: {'reached' if own >= goal else 'missed'}"
            given = mean(results[target].get("adapted_f1") or results[target]["f1"] for target in scored)
            figures = [f"{own:.1f}", f"{given:.1f}", f"{printed_average(group.name, 'ZGUL'):.1f}", verdict]
            rows.append([f"**{group.name}**", "", "", "", *figures])
    return rows


def adapted_f1(result: dict[str, Any]) -> str:
    """The F1 of the adapted tagger; a dash if none ships."""
    f1 = result.get("adapted_f1")
    return "–" if f1 is None else f"{f1:.1f}"


def scores_table(results: dict[str, dict[str, Any]]) -> str:
    """The table of `summary`. Adapted taggers have a column if one was scored.

    The average of that column is that of what ``zgul tag`` gives: the adapted tagger where one ships.
    """
    rows, column = [HEADS, *summary(results)], HEADS.index("adapted")
    if all(result.get("adapted_f1") is None for result in results.values()):
        rows = [[*row[:column], *row[column + 1 :]] for row in rows]
    return markdown(rows[0], rows[1:], words=2)


def markdown(heads: list[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table. All columns but the first ``words`` are figures."""
    rule = ["---"] * words + ["---:"] * (len(heads) - words)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows]) + "\n"


def commit() -> str:
    """The commit of the checkout, if it is one, and whether files differ from it."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty= with changes"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def check(data: Path, languages: Sequence[str]) -> None:
    """Report missing files and taggers before the first minutes of work."""
    if not data.is_dir():
        raise ZgulError(
            f"{data}: no such folder. make scores needs the paper's test files as DIR/pos/fo/test.tsv.xz and so on: "
            "make scores DATA=DIR (zgul data list says where they come from)."
        )
    for language in languages:
        task = GROUP_OF[language].task
        if (name := serving(language, task, adapted=False).name) not in shipped_names():
            raise ZgulError(f"The tagger {name} is not installed.")
        if DataFolder(data).labelled_file(task, language, "test") is None:
            raise ZgulError(f"{data / task / language} has no test file.")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--languages", nargs="+", default=list(TARGETS), choices=TARGETS, metavar="LANG")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    check(given.data, given.languages)
    started, results = time.monotonic(), {}
    for number, language in enumerate(given.languages, start=1):
        result = results[language] = evaluate(language, DataFolder(given.data))
        more = f"{adapted_f1(result):>5}"
        line = f"{find(language)!s:28} {result['model']:15} F1 {result['f1']:5.1f}, adapted {more}   the paper's ZGUL "
        print(f"[{number:2}/{len(given.languages)}] {line}{paper_f1(language):5.1f}   {result['seconds']:6.1f} s")
    seconds = round(time.monotonic() - started)
    print(f"\n{scores_table(results)}\n{seconds} seconds")
    if set(results) == set(TARGETS):
        about = {"commit": commit(), "seconds": seconds, "threads": torch.get_num_threads()}
        about |= {"torch": torch.__version__, "machine": platform.machine()}
        write_json(given.output / "scores.json", about | {"scores": results})
        note(results)
        with atomic_write(given.output / "scores.md") as file:
            file.write(f"{scores_table(results)}\nBy `make scores` at commit {about['commit']}, shipped weights, CPU ")
            file.write(f"({about['threads']} threads, {seconds} seconds).\n")


if __name__ == "__main__":
    try:
        main()
    except ZgulError as error:
        sys.exit(f"Error: {error}")
