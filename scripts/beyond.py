"""Taggers that are trained further on more sources: choose their noise, score and ship them, write docs/beyond.md.

    python scripts/embedded_taggers.py scripts/plans/wide-choice.json --data WIDE --output CHOICE
    python scripts/beyond.py choose CHOICE                # applies the rule of scripts/plans/README.md
    python scripts/embedded_taggers.py scripts/plans/wide.json --data WIDE --output RUN --adapters src/zgul/shipped
    python scripts/beyond.py targets RUN --data DATA      # reads the test files, once: before and after
    python scripts/beyond.py ship RUN
    python scripts/beyond.py report

``WIDE`` is the folder that scripts/wide_data.py makes. What is measured is kept in docs/results/wide.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import longer
import many_sources
import marks
import wide_all
from embedded_taggers import load_saved
from scores import DATA, DOCS, commit, markdown, paper_f1
from scores import RESULTS as EMBEDDED
from ship import SHIPPED, read_results

from zgul.corpora.data_folder import DataFolder
from zgul.evaluation import bootstrap_f1, scores
from zgul.files import atomic_write, read_json, write_json
from zgul.languages import GROUPS, find
from zgul.tagger import Tagger
from zgul.tagging.loading import choose_inference

RESULTS, MANY = DOCS / "results" / "wide", DOCS / "results" / "many-sources"
NAMES = {"germanic": "germanic-pos", "slavic": "slavic-pos", "african": "african-ner"}
VARIANTS = {"before": "as shipped before", "edits": "more sources, edits", "ciphers": "more sources, edits and ciphers"}
HOW = {
    "machine": "one core of a CPU, torch 2.13, bf16",
    "seed": 0,
    "command": "python scripts/embedded_taggers.py scripts/plans/wide.json --data WIDE --output RUN "
    "--adapters src/zgul/shipped",
}
TEXT = Path(__file__).with_name("cards") / "beyond.md"


def task_of(group: str) -> str:
    return NAMES[group].rpartition("-")[2]


def choose(runs: list[Path]) -> None:
    """Collect the runs on languages left out, and choose the noise of each task."""
    results = {name: run for folder in runs for name, run in read_results(folder / "results.jsonl").items()}
    f1 = {group: {variant: results[f"{group}:{variant}"]["f1"] for variant in VARIANTS} for group in NAMES}
    chosen = {}
    for task in sorted(set(map(task_of, NAMES))):
        own = [group for group in NAMES if task_of(group) == task]
        by_noise = {noise: mean(mean(f1[group][noise].values()) for group in own) for noise in ("edits", "ciphers")}
        chosen[task] = max(by_noise, key=by_noise.__getitem__)
    replaced = [
        group
        for group in NAMES
        if mean(f1[group][chosen[task_of(group)]].values()) > mean(f1[group]["before"].values())
    ]
    about = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "seed": 0}
    write_json(RESULTS / "choice.json", about | {"f1": f1, "noise": chosen, "replaced": replaced})
    print(json.dumps({"noise": chosen, "replaced": replaced}))


def made(group: str, runs: list[Path]) -> Path | None:
    """The folder of a group's new tagger, if one of the runs has finished it."""
    folders = (run / "taggers" / NAMES[group] for run in runs)
    return next((folder for folder in folders if (folder / "config.json").is_file()), None)


def targets(runs: list[Path], data: Path) -> None:
    """Score the taggers before and after on the test files, as ``zgul tag`` reads them. No file is read twice."""
    path = RESULTS / "targets.json"
    result: dict[str, Any] = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "f1": {}}
    result |= read_json(path) if path.is_file() else {}
    for group in read_json(RESULTS / "choice.json")["replaced"]:
        folder = made(group, runs)
        if folder is None or GROUPS[group].targets[-1] in result["f1"]:
            continue
        folders = {"before": SHIPPED / NAMES[group], "after": folder}
        taggers = {
            key: load_saved(folder, SHIPPED / "adapters.safetensors", "embedded") for key, folder in folders.items()
        }
        for target in GROUPS[group].targets:
            sentences = DataFolder(data).sentences(task_of(group), target, "test")
            gold = [sentence.tags or [] for sentence in sentences]
            tags = {key: tag(tagger, target, sentences) for key, tagger in taggers.items()}
            difference = bootstrap_f1(gold, tags["after"], tags["before"])
            result["f1"][target] = {key: round(scores(gold, own).f1, 3) for key, own in tags.items()}
            result["f1"][target] |= {"low": round(difference.low, 3), "high": round(difference.high, 3)}
            print(target, result["f1"][target], flush=True)
            write_json(path, result)


def tag(tagger: Tagger, language: str, sentences: list[Any]) -> list[list[str]]:
    """The tags of sentences, with the EM settings that users get."""
    chosen = choose_inference(tagger, language)
    predicted = tagger.predict(sentences, strategy=chosen.strategy, em=chosen.em, skip_below=chosen.skip_below)
    return [prediction.tags for prediction in predicted]


def ship(runs: list[Path]) -> None:
    """Copy the taggers that replace others into the package, and note how they were made."""
    f1, lines = read_json(RESULTS / "targets.json")["f1"], [""]
    provenance = read_json(EMBEDDED / "provenance.json")
    results = {name: result for run in runs for name, result in read_results(run / "results.jsonl").items()}
    for group in read_json(RESULTS / "choice.json")["replaced"]:
        folder, to = made(group, runs), SHIPPED / NAMES[group]
        if folder is None:
            sys.exit(f"{NAMES[group]} is not in {', '.join(map(str, runs))}.")
        config = read_json(folder / "config.json")
        kinds = ("plain", "em")  # the same: EM takes no step
        measured = {f"{target}/test/{kind}": f1[target]["after"] for target in GROUPS[group].targets for kind in kinds}
        config["about"] |= {"scores": {"9-bit": measured}}
        write_json(to / "config.json", config)
        shutil.copyfile(folder / "model.safetensors", to / "model.safetensors")
        name, start = NAMES[group], provenance.get(NAMES[group], provenance["taggers"])
        lines.append(json.dumps(results[name] | {"f1_9bit": measured}))
        made_at = f"Started from the tagger of {start['date']}, commit {start['commit']}."
        provenance[name] = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "note": made_at} | HOW
    write_json(EMBEDDED / "provenance.json", provenance)
    with (EMBEDDED / "results.jsonl").open("a") as file:
        file.write("\n".join(lines).lstrip("\n") + "\n")


def report() -> None:
    """Write docs/beyond.md from what is stored."""
    choice, measured = read_json(RESULTS / "choice.json"), read_json(RESULTS / "targets.json")
    again = read_json(MANY / "targets.json")["f1"]
    over_all = read_json(wide_all.FIGURES)
    parts = {
        "choice": "\n".join(choice_table(choice["f1"][group], group) for group in NAMES),
        "noise": ", ".join(f"`{noise}` for {task.upper()}" for task, noise in choice["noise"].items()),
        "replaced": ", ".join(NAMES[group] for group in choice["replaced"]) or "none",
        "targets": target_table(measured["f1"]),
        "sources": source_table(),
        "levers": "\n".join(many_sources.lever_table(read_json(MANY / "choice.json"), task) for task in ("pos", "ner")),
        "compared": compared_table(read_json(MANY / "compared.json")["f1"]),
        "folded": len(marks.LANGUAGES["all-pos"]),
        "folded_ner": len(marks.LANGUAGES["all-ner"]),
        "folding": marks.folding_table(),
        "folding_sources": marks.sources_table(),
        "all_left_out": wide_all.table(over_all, "left out"),
        "all_sources": wide_all.table(over_all, "sources"),
        "all_strange": wide_all.table(over_all, "strange"),
        "again": target_table(again["african-ner"]),
        "longer_targets": target_table(read_json(longer.RESULTS / "targets.json")["f1"]["african-ner"]),
        "choice_commit": choice["commit"],
        "targets_commit": measured["commit"],
        "date": measured["date"],
    }
    with atomic_write(DOCS / "beyond.md") as file:
        file.write(TEXT.read_text(encoding="utf-8").format(**parts, **longer.report_parts()))


def choice_table(f1: dict[str, dict[str, float]], group: str) -> str:
    """A row for each variant, a column for each language left out and form."""
    heads, rows = [], []
    for key in f1["before"]:  # such as da/dev/shifted/plain
        language, _, *form, _ = key.split("/")
        heads.append(" ".join([find(language).name, *form]))
    for variant, title in VARIANTS.items():
        values = list(f1[variant].values())
        rows.append([title, *(f"{value:.1f}" for value in values), f"**{mean(values):.1f}**"])
    return markdown([group, *heads, "mean"], rows)


def target_table(f1: dict[str, dict[str, float]]) -> str:
    """A row for each target, and one for the mean of its group."""
    rows = []
    for group in GROUPS.values():
        own = [target for target in group.targets if target in f1]
        for target in own:
            one = f1[target]
            rows.append(target_row(str(find(target)), one, paper_f1(target)))
            rows[-1][3] += f" ({one['low']:+.1f} to {one['high']:+.1f})"
        if own:
            means = {key: mean(f1[target][key] for target in own) for key in ("before", "after")}
            rows.append(target_row(f"**{group.name}**", means, mean(map(paper_f1, own))))
    return markdown(["language", "before", "after", "change (95 %)", "the paper's ZGUL"], rows)


def compared_table(f1: dict[str, dict[str, float]]) -> str:
    """A row for each new tagger and the one that it would replace: the mean over sources and forms."""
    pairs: dict[tuple[str, ...], list[dict[str, float]]] = {}
    for key, one in f1.items():  # such as all-pos/germanic-pos/is/shifted
        pairs.setdefault(tuple(key.split("/")[:2]), []).append(one)
    rows = []
    for (new, old), own in pairs.items():
        before, after = (mean(one[name] for one in own) for name in ("old", "new"))
        rows.append([new, old, str(len(own)), f"{before:.1f}", f"{after:.1f}", f"{after - before:+.1f}"])
    return markdown(["new", "old", "files and forms", "old one", "new one", "change"], rows, words=2)


def source_table() -> str:
    """F1 on dev files of the paper's sources, before and after."""
    path = RESULTS / "sources.json"
    f1 = read_json(path)["f1"] if path.is_file() else {}
    rows = []
    for key, one in f1.items():
        name, _, language = key.partition("/")
        rows.append([name, str(find(language)), *(f"{one[when]:.1f}" for when in ("before", "after"))])
    return markdown(["tagger", "source", "before", "after"], rows, words=2)


def target_row(name: str, f1: dict[str, float], paper: float) -> list[str]:
    change = f1["after"] - f1["before"]
    return [name, f"{f1['before']:.1f}", f"**{f1['after']:.1f}**", f"{change:+.1f}", f"{paper:.1f}"]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("choose", "targets", "ship", "report"))
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args(arguments)
    if given.step == "choose":
        choose(given.runs)
    elif given.step == "targets":
        targets(given.runs, given.data)
    elif given.step == "ship":
        ship(given.runs)
    else:
        report()


if __name__ == "__main__":
    main()
