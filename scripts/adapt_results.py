"""Choose and measure the recipe of ``zgul adapt``, and write docs/results/adapt.

    python scripts/adapt_results.py sources --data WIDE --taggers RUN/taggers --output WORK   # on languages left out
    python scripts/adapt_results.py choose                                                    # the rule
    python scripts/adapt_results.py targets --data WIDE --output WORK                         # raw text
    python scripts/adapt_results.py curves --data DATA --output WORK                          # labelled sentences
    python scripts/adapt_results.py figure                                                    # of the curves; tables

``RUN/taggers`` are those of scripts/longer.py that left a language out. WIDE (scripts/wide_data.py) needs the folder
``text`` of DATA beside its own. The rules stand in
scripts/plans/README.md. ``--device cuda --jobs 16`` runs many side by side. A line that is there is not made again.
``curves`` ends with what ``figure`` does: the figure and the tables of docs/adapt.md.
"""

import argparse
import json
import multiprocessing
import os
import random
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any
from unittest import mock

import cards
import torch
from scores import DATA, DOCS, GROUP_OF, commit
from strange_text import shift, shift_table

import zgul
from zgul import encoders
from zgul.adaptation.adapting import AdaptConfig
from zgul.corpora import DataFolder, Sentence, columns
from zgul.corpora.lines import Lines
from zgul.evaluation import MeanStd, bootstrap_f1, mean_std, scores
from zgul.files import atomic_write, read_json, write_json
from zgul.languages import TARGETS, find
from zgul.paper.report import figures
from zgul.tagging.serving import serving
from zgul.tagging.text_tagger import TextTagger

OUTPUT = DOCS / "results" / "adapt"
LEVEL = 0.3  # F1: smaller differences count as none
JUDGED_ON, MOST = 8_000, 20_000  # sentences of raw text: on languages left out, and of targets
BUDGET = "4m"  # for a target: what the recipe may take on a GPU
_LONG: dict[str, Any] = {"batch": 64, "epochs": 8, "lr": 1e-3}
RECIPES: dict[str, dict[str, Any]] = {  # the cheaper first
    "short": {"batch": 16, "epochs": 3, "lr": 5e-4},  # what `zgul adapt` did before
    "long": _LONG,
    "masked": _LONG | {"masked": 1.0},
    "ciphers": _LONG | {"ciphers": 0.3},
    "rounds": _LONG | {"rounds": 2},
    "gold": _LONG,  # and labelled sentences of the sources beside the text
}
CURVES = ("fo", "luo", "cu", "ha")
FEW: dict[int, dict[str, Any]] = {10: {}, 50: {}, 100: {}, 500: {"budget": "20m"}}  # labelled sentences, and options
REPEATED = (10, 50)  # with every seed; the others with seed 0
SEEDS = (0, 1, 2)
PICTURE = DOCS / "images" / "adapt-curves.svg"


@dataclass(frozen=True)
class Case:
    """A language left out, as it is or in a made-up sister's spelling, and the tagger that has not learnt from it.

    The encoder has read all of these languages but Wolof. With a fifth of the letters replaced throughout, they are as
    strange to it as a language that it has not read.
    """

    task: str
    language: str
    tagger: str
    shifted: bool

    @property
    def name(self) -> str:
        return f"{self.language}{' shifted' * self.shifted}"


CASES = (
    Case("pos", "is", "one.is-cs.0", True),
    Case("pos", "cs", "one.is-cs.0", True),
    Case("ner", "sw", "one.sw.0", True),
    Case("ner", "wo", "one.wo.0", False),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sources", "choose", "targets", "curves", "figure"))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--taggers", type=Path, default=Path("runs/longer/taggers"))
    parser.add_argument(
        "--output", type=Path, default=Path("runs/adapt"), help="folder for deltas and work in progress"
    )
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], help="languages")
    parser.add_argument("--sizes", nargs="+", type=int, choices=FEW, default=[*FEW], help="labelled sentences")
    parser.add_argument("--seeds", nargs="+", type=int, choices=SEEDS, default=[*SEEDS])
    given = parser.parse_args()
    files = {"sources": "left-out.jsonl", "targets": "targets-gpu.jsonl", "curves": "curves.jsonl"}
    if given.what == "choose":
        choose()
    elif given.what in files:
        path = OUTPUT / files[given.what]
        work = {"sources": of_sources, "targets": of_targets, "curves": of_curves}[given.what](given)
        run_all(
            {name: job for name, job in work.items() if name not in {line["name"] for line in lines(path)}}, path, given
        )
    if given.what in ("curves", "figure"):
        show_curves()


def run_all(work: dict[str, Callable[[], dict[str, Any]]], path: Path, given: argparse.Namespace) -> None:
    """Run jobs side by side, and append a line for each that is done."""
    context = multiprocessing.get_context("spawn")
    fresh: dict[str, Any] = {"initializer": prepare, "initargs": (given.encoder,), "max_tasks_per_child": 1}
    with ProcessPoolExecutor(given.jobs, mp_context=context, **fresh) as pool:
        jobs = {pool.submit(job): name for name, job in work.items()}
        for done in as_completed(jobs):
            try:
                append(path, {"name": jobs[done]} | done.result() | provenance())
            except Exception:
                traceback.print_exc()


def prepare(encoder: str) -> None:
    """Let the embedded encoder be read from a file: one whose vocabulary is pruned to the data gives the same tags."""
    torch.set_num_threads(1)
    if encoder != "embedded":
        mock.patch.object(encoders, "load_embedded", partial(encoders.load_q4, encoder)).start()


def of_sources(given: argparse.Namespace) -> dict[str, Callable[[], dict[str, Any]]]:
    """Every recipe on every language left out."""
    chosen = [case for case in CASES if not given.only or case.language in given.only]
    names = [(f"{case.name}, {recipe}", case, recipe) for recipe in RECIPES for case in chosen]
    return {name: partial(on_source, case, recipe, given) for name, case, recipe in names}


def on_source(case: Case, recipe: str, given: argparse.Namespace) -> dict[str, Any]:
    """F1 on the dev set of a language left out, before and after."""
    data, place = DataFolder(given.data), given.output / f"{case.name.replace(' ', '-')}.{recipe}"
    dev, text = data.sentences(case.task, case.language, "dev"), raw_lines(data, case.language, JUDGED_ON)
    if case.shifted:
        table = shift_table(dev)
        dev, text = shift(dev, table), [line.translate(table) for line in text]
    config = AdaptConfig.from_dict(RECIPES[recipe] | {"sentences": JUDGED_ON})
    extra: dict[str, Any] = {"data": given.data} if recipe == "gold" else {}
    result = adapt(
        case.language, place, text, given.device, config=config, model=given.taggers / case.tagger, dev=dev, **extra
    )
    return {"task": case.task, "case": case.name, "recipe": recipe, **result}


def choose() -> None:
    """The recipe of each task: the best mean over its cases; of those within LEVEL of it, the cheapest."""
    found = lines(OUTPUT / "left-out.jsonl")
    choice = {}
    for task in sorted({line["task"] for line in found}):
        cases = {case.name for case in CASES if case.task == task}
        f1: dict[str, dict[str, float]] = {}
        for line in found:
            if line["task"] == task:
                f1.setdefault(line["recipe"], {})[line["case"]] = line["dev_after"]
        whole = {recipe: mean(own.values()) for recipe, own in f1.items() if set(own) == cases}
        best = max(whole.values())
        choice[task] = next(recipe for recipe in RECIPES if whole.get(recipe, 0.0) >= best - LEVEL)
        print(task, choice[task], {recipe: round(value, 2) for recipe, value in whole.items()}, flush=True)
    write_json(OUTPUT / "choice.json", choice)


def of_targets(given: argparse.Namespace) -> dict[str, Callable[[], dict[str, Any]]]:
    """The chosen recipe on the open text of every target that has some."""
    data = DataFolder(given.data)
    own = [code for code in given.only or TARGETS if data.text_files(code, ("open",))]
    return {code: partial(on_target, code, given) for code in own}


def on_target(code: str, given: argparse.Namespace) -> dict[str, Any]:
    """Adapt to a target. ship_adapted.py reads its test file, when all deltas are made."""
    data, task = DataFolder(given.data), GROUP_OF[code].task
    recipe = read_json(OUTPUT / "choice.json")[task]
    config = AdaptConfig.from_dict(RECIPES[recipe] | {"sentences": MOST})
    extra: dict[str, Any] = {"data": given.data} if recipe == "gold" else {}
    extra["model"] = serving(code, task, adapted=False).name  # so that "before" is zero-shot, whatever ships
    text = raw_lines(data, code, 2 * MOST)
    result = adapt(code, given.output / f"{code}-{task}", text, given.device, config=config, budget=BUDGET, **extra)
    return {"recipe": recipe, **result}


def of_curves(given: argparse.Namespace) -> dict[str, Callable[[], dict[str, Any]]]:
    """10 to 500 labelled sentences of some targets; seed 0 first."""
    cells = [(code, count, seed) for seed in given.seeds for count in given.sizes for code in given.only or CURVES]
    cells = [cell for cell in cells if cell[1] in REPEATED or cell[2] == SEEDS[0]]
    return {f"{code}, {count}, seed {seed}": partial(on_curve, code, count, seed, given) for code, count, seed in cells}


def on_curve(code: str, count: int, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Learn from this many labelled sentences of a target, and score its test file before and after."""
    data, task = DataFolder(given.data), GROUP_OF[code].task
    few = drawn(data.sentences(task, code, "few"), count, seed)
    place = given.output / f"few-{code}-{count}-{seed}"
    columns.write(place.with_suffix(".tsv"), few)
    made: dict[str, Any] = {"task": task, "labelled": place.with_suffix(".tsv"), "config": AdaptConfig(seed=seed)}
    started = time.process_time()
    result = adapt(code, place, [], given.device, **made, **FEW[count])
    cost = {
        "cpu_seconds": round(time.process_time() - started, 1),
        "megabytes_of_memory": peak_memory(),
        "load": os.getloadavg()[1],
        "threads": torch.get_num_threads(),
    }
    before, after = (zgul.load(code, task, model=model, precision="float32") for model in (None, place))
    facts = {"count": count, "seed": seed, "shipped": before.served[task].name, "words": sum(map(len, few))}
    files = {split: data.sentences(task, code, split) for split in ("test", "dev")}
    return {**facts, **result, **cost} | {split: compared(file, before, after) for split, file in files.items()}


def compared(sentences: list[Sentence], before: TextTagger, after: TextTagger) -> dict[str, Any]:
    """F1 of two taggers on labelled sentences."""
    gold = [one.tags or [] for one in sentences]
    old, new = predicted(before, sentences), predicted(after, sentences)
    f1 = {"before": scores(gold, old).f1, "after": scores(gold, new).f1}
    return f1 | {"sentences": len(gold), "difference": asdict(bootstrap_f1(gold, new, old))}


def drawn(sentences: list[Sentence], count: int, seed: int) -> list[Sentence]:
    """Some of the sentences. With the same seed, fewer are a part of more."""
    shuffled = list(sentences)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:count]


def peak_memory() -> int:
    """The most megabytes that this process has held."""
    status = Path("/proc/self/status").read_text("utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024 // 1_000_000


def predicted(tagger: TextTagger, test: Sequence[Sentence]) -> list[list[str]]:
    """The tags that a tagger gives, as `zgul tag` runs it."""
    ((task, model),) = tagger.taggers.items()
    return [one.tags for one in model.predict(test, **vars(tagger.inference[task]))]


def show_curves() -> None:
    """Draw the curves, and write the tables of docs/adapt.md."""
    by: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for line in lines(OUTPUT / "curves.jsonl"):
        by.setdefault(line["language"], {}).setdefault(line["count"], []).append(line)
    panels = {}
    for code in (code for code in CURVES if code in by):
        title = f"{find(code).name} ({GROUP_OF[code].task.upper()})"
        panels[title] = {name: f1_by_size(by[code], file) for file, name in cards.CURVE_FILES.items()}
    PICTURE.write_bytes(figures.draw_files(figures.Figure("curves", "", partial(draw, panels)))["svg"])
    page = DOCS / "adapt.md"
    written = cards.fill(page.read_text("utf-8"), cards.adapting_blocks(OUTPUT))
    with atomic_write(page) as file:
        file.write(written)


def f1_by_size(runs: dict[int, list[dict[str, Any]]], file: str) -> dict[int, MeanStd]:
    """F1 on a file before (no sentences) and after."""
    before = mean_std([next(iter(runs.values()))[0][file]["before"]])
    return {0: before} | {count: mean_std([run[file]["after"] for run in runs[count]]) for count in sorted(runs)}


def draw(panels: dict[str, figures.Lines]) -> Any:
    """The curves over sizes that grow fivefold, as far from each other as their logarithms."""
    drawing = figures.draw_curves(panels, "labelled sentences", columns=2)
    sizes = [0, *FEW]
    for axes in drawing.axes:
        axes.set_xscale("symlog", linthresh=min(FEW))
        axes.set_xticks(sizes, map(str, sizes))
        axes.set_xlim(-1, 1.2 * max(FEW))
        axes.minorticks_off()
    return drawing


def adapt(code: str, output: Path, text: list[str], device: str, **settings: Any) -> dict[str, Any]:
    """What `zgul.adapt` did, without the words that it quotes."""
    output.parent.mkdir(parents=True, exist_ok=True)
    if text:
        settings["text"] = output.with_suffix(".txt")
        settings["text"].write_text("\n\n".join(text) + "\n", "utf-8")
    started = time.monotonic()
    result = zgul.adapt(code, output=output, device=device, overwrite=True, **settings).to_dict()
    private = ("examples", "output", "verdict", "base")
    facts = {name: value for name, value in result.items() if name not in private}
    return facts | {"seconds": round(time.monotonic() - started, 1)}


def raw_lines(data: DataFolder, code: str, most: int) -> list[str]:
    """This many lines of openly licensed text, drawn evenly."""
    found = [line.strip() for file in data.text_files(code, ("open",)) for line in Lines(file) if line.strip()]
    return random.Random(0).sample(found, min(most, len(found)))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


def append(path: Path, line: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(json.dumps(line, ensure_ascii=False), flush=True)


def provenance() -> dict[str, str]:
    """When, with which code and where."""
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "commit": commit(),
        "machine": f"{where}, torch {torch.__version__}",
    }


if __name__ == "__main__":
    main()
