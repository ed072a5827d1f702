"""Train the taggers over many sources for longer, from levers that are judged on languages left out.

    python scripts/wide_data.py DATA WIDE
    python scripts/longer.py levers --data WIDE --output RUN     # rank, averages, SFT-M, on languages left out; a GPU
    python scripts/longer.py choose --output RUN                 # which levers are adopted
    python scripts/longer.py train --data WIDE --output RUN      # what is to ship, and SFT-M on the same sentences
    python scripts/longer.py judge --data WIDE --output RUN      # beside the taggers that ship now
    python scripts/longer.py code NAME --data WIDE --output RUN  # in fewer bits
    python scripts/longer.py ship NAME --data DATA --output RUN  # reads the test files, once
    python scripts/longer.py alike --data DATA --output RUN      # ZGUL beside SFT-M on the targets; beyond.py report

The rule stands in scripts/plans/README.md. What is measured is kept in docs/results/longer. The runs and their settings
are those of scripts/many_sources.py.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import many_sources
import recode
from embedded_taggers import Places, load_saved, run_specs
from many_sources import FINAL_LIMIT, FORMS, LEVEL, LIMIT, SFT, configuration, groups_of, sources
from scores import DATA, DOCS, commit, markdown
from ship import SHIPPED, read_results
from strange_text import ALL_FORMS

from zgul.corpora.data_folder import DataFolder
from zgul.devices import find_device
from zgul.evaluation import scores
from zgul.files import read_json, write_json
from zgul.languages import GROUPS, find
from zgul.tensors import load_with_metadata, save_tensors

RESULTS, WIDE, ADAPTERS = DOCS / "results" / "longer", DOCS / "results" / "wide", "adapters.safetensors"
LEFT_OUT = {"pos": ("da", "nl", "hr", "uk", "la", "grc"), "ner": ("xh", "mos")}
FOR_ADAPT = ("one.is-cs.0", "one.sw.0", "one.wo.0")  # the taggers on which adapt_results.py judges its recipes
LEVERS: dict[str, dict[str, Any]] = {
    "one": {},
    "rank64": {"options": {"encoder_rank": 64}},
    "average": {"select": "average", "eval_every": 0},
    "sft": SFT,
}
TITLES = {
    "one": "ZGUL, updates of rank 16",
    "rank64": "ZGUL, updates of rank 64",
    "average": "ZGUL, the mean of the weights of the last epochs",
    "sft": "SFT-M",
}
ADOPTABLE = ("rank64", "average")
FINALS = {"all-pos": "pos", "african-ner": "ner", "all-ner": "ner"}
COMPARED = 150  # sentences of each dev set
BITS, LOST = (6, 7, 8), 0.1  # tried for what ships instead of 9, and the change of F1 that is too much
MODEL = "model.safetensors"
MADE = {  # how the taggers that ship were made
    "commit": "45fd3c7",
    "machine": "one NVIDIA H200, torch 2.11, bf16",
    "command": "python scripts/longer.py train --data WIDE --output RUN",
    "note": "From the bare encoder, in 100 seconds.",
}
MOST_LOST = 1.0  # F1 on the sources of before, on average; most users' languages are none of them


def lever_specs() -> list[dict[str, Any]]:
    """First the taggers that adapt_results.py waits for, then every lever on the languages left out."""
    specs = [spec for spec in many_sources.lever_specs(["one"], [0]) if spec["name"] in FOR_ADAPT]
    for lever, changes in LEVERS.items():
        for task, left in LEFT_OUT.items():
            own = {"leave_out": list(left), "limit": LIMIT} | changes
            spec: dict[str, Any] = {
                "name": f"{lever}.{task}",
                "config": configuration(task, sources(groups_of(task)), own),
                "test": [[code, "dev"] for code in left],
                "shifts": [*ALL_FORMS] if task == "pos" else [*FORMS],
            }
            specs.append(spec | ({} if lever == "sft" else {"adapters": ADAPTERS}))
    return specs


def figures(run: dict[str, Any]) -> dict[str, float]:
    """F1 by language and form, such as nl/shifted. Latin letters stay as they are when they are romanised."""
    found = {}
    for key, f1 in run["f1"].items():
        language, _, *form, _ = key.split("/")
        if form != ["romanised"] or language in ("uk", "grc"):
            found["/".join([language, *form])] = f1
    return found


def choose(run: Path) -> None:
    """A lever is adopted for a task if it is better on the languages left out."""
    results = read_results(run / "results.jsonl")
    f1 = {name: figures(results[name]) for name in results if name.partition(".")[2] in LEFT_OUT}
    means = {name: mean(own.values()) for name, own in f1.items()}
    adopted = {
        task: [
            lever for lever in ADOPTABLE if means.get(f"{lever}.{task}", 0.0) >= means.get(f"one.{task}", 100.0) + LEVEL
        ]
        for task in LEFT_OUT
    }
    about = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "machine": many_sources.machine()}
    write_json(RESULTS / "choice.json", about | {"adopted": adopted, "f1": f1})
    print(adopted, {name: round(value, 2) for name, value in means.items()}, flush=True)


def final_specs(adopted: dict[str, list[str]]) -> list[dict[str, Any]]:
    """The taggers that are to ship, with the adopted levers, and SFT-M on the same sentences."""
    specs = []
    for name, task in FINALS.items():
        group = name.rpartition("-")[0]
        codes = sources([group] if group in GROUPS else [own for own in GROUPS if GROUPS[own].task == task])
        changes: dict[str, Any] = {"limit": FINAL_LIMIT if name != "all-ner" else 4000}
        changes["group"] = group if group in GROUPS else ""
        zgul = changes.copy()
        for lever in adopted[task]:
            zgul |= LEVERS[lever]
        specs.append({"name": name, "config": configuration(task, codes, zgul), "adapters": ADAPTERS, "save": True})
        if name != "all-ner":
            groups = [GROUPS[own] for own in groups_of(task)]
            test = [[code, "test"] for own in groups for code in own.targets]
            specs.append({"name": f"sft-{name}", "config": configuration(task, codes, changes | SFT), "test": test})
    return sorted(specs, key=lambda spec: spec["name"].startswith("sft"))


def judge(names: Sequence[str], places: Places) -> None:
    """Compare new taggers with those that ship, on the old sources as they are and made strange; apply the rule."""
    path = RESULTS / "judged.json"
    found: dict[str, dict[str, float]] = read_json(path)["f1"] if path.is_file() else {}
    for name in names or FINALS:
        task = FINALS[name]
        codes = read_json(SHIPPED / name / "config.json")["sources"]
        folders = {"new": places.output / "taggers" / name, "old": SHIPPED / name}
        taggers = {
            key: load_saved(folder, SHIPPED / ADAPTERS, places.encoder).to(find_device("auto"))
            for key, folder in folders.items()
        }
        for code in codes:
            dev = DataFolder(places.data).sentences(task, code, "dev")[:COMPARED]
            for form in FORMS:
                changed, gold = ALL_FORMS[form](dev), [sentence.tags or [] for sentence in dev]
                tags = {key: tagger.predict(changed, strategy="plain") for key, tagger in taggers.items()}
                f1 = {key: scores(gold, [one.tags for one in own]).f1 for key, own in tags.items()}
                found["/".join([name, code, form or "as it is"])] = f1
        write_json(path, {"commit": commit(), "sentences": COMPARED, "f1": found})
        print(name, replaced(name), flush=True)


def code(name: str, places: Places) -> None:
    """Code a new tagger in the fewest bits that change F1 on the old one's sources by less than LOST on average."""
    folder, data = places.output / "taggers" / name, DataFolder(places.data)
    codes = read_json(SHIPPED / name / "config.json")["sources"]
    devs = {own: data.sentences(FINALS[name], own, "dev")[:COMPARED] for own in codes}
    tensors, metadata = load_with_metadata(folder / MODEL)
    for bits in BITS:
        coded = shutil.copytree(folder, places.output / "coded" / name, dirs_exist_ok=True)
        save_tensors(coded / MODEL, tensors, bits=bits, metadata=metadata)
        pair = (load_saved(one, SHIPPED / ADAPTERS, places.encoder) for one in (folder, coded))
        dev = recode.changes(*pair, devs)
        change = mean(one["after"] - one["before"] for one in dev.values())
        print(f"{name} in {bits} bits: {change:+.2f}", flush=True)
        if abs(change) < LOST:
            sizes = [round((one / MODEL).stat().st_size / 1e6, 2) for one in (folder, coded)]
            facts = {"bits": bits, "from": 9, "megabytes": sizes, "dev": dev, "recoded": True}
            about = {"date": time.strftime("%Y-%m-%d"), "commit": commit()}
            write_json(recode.FIGURES, read_json(recode.FIGURES) | {name: facts | about})
            shutil.copyfile(coded / MODEL, folder / MODEL)
            break


def ship(names: list[str], data: Path, run: Path) -> None:
    """Put those taggers into the package that the rule replaces. This reads the test files of their targets."""
    if unfit := [name for name in names if not replaced(name)["replaced"]]:
        sys.exit(f"By the rule, these do not ship: {', '.join(unfit)}.")
    groups = {name.rpartition("-")[0] for name in names} & {*GROUPS}
    many_sources.before(data, run, [target for group in groups for target in GROUPS[group].targets])
    many_sources.ship(names, data, run, MADE, RESULTS)


def alike(data: Path, run: Path) -> None:
    """F1 of ZGUL beside SFT-M, trained on the same sentences in the same way, on the targets. It chooses nothing."""
    results, found = read_results(run / "results.jsonl"), dict[str, dict[str, float]]()
    for name in ("all-pos", "african-ner"):
        tagger = load_saved(run / "taggers" / name, SHIPPED / ADAPTERS, "embedded")
        for key, sft in results[f"sft-{name}"]["f1"].items():
            code = key.split("/")[0]
            test = many_sources.test(data, code)
            tags = [one.tags for one in tagger.predict(test, strategy="plain")]
            found[code] = {"zgul": scores([one.tags or [] for one in test], tags).f1, "sft": sft}
            print(code, found[code], flush=True)
    write_json(RESULTS / "alike.json", {"commit": commit(), "f1": found})


def report_parts() -> dict[str, str]:
    """The tables of docs/beyond.md."""
    f1, sets = read_json(RESULTS / "choice.json")["f1"], (("da", "nl"), ("hr", "uk"), ("la", "grc"), ("xh", "mos"))
    rows, old = [], before("pos") | before("ner")
    for lever, title in ({"": "the taggers that shipped"} | TITLES).items():
        own = f1[f"{lever}.pos"] | f1[f"{lever}.ner"] if lever else old
        means = [mean(own[key] for key in old if key.split("/")[0] in codes) for codes in sets]
        rows.append([title, *(f"{value:.1f}" for value in means)])
    heads = [" and ".join(find(code).name for code in codes) for codes in sets]
    rules = {name: replaced(name) for name in ("african-ner", "all-ner")}
    alike_rows = []
    measured = read_json(RESULTS / "alike.json")["f1"]
    for group in GROUPS.values():
        codes = [code for code in group.targets if code in measured]
        named = [(str(find(code)), [code]) for code in codes] + ([(f"**{group.name}**", codes)] if codes else [])
        for name, part in named:
            zgul, sft = (mean(measured[code][key] for code in part) for key in ("zgul", "sft"))
            alike_rows.append([name, f"{sft:.1f}", f"{zgul:.1f}", f"{zgul - sft:+.1f}"])
    return {
        "longer_levers": markdown(["trained without", *heads], rows),
        "longer_alike": markdown(["language", "SFT-M", "ZGUL", "difference"], alike_rows),
        "longer_african": f"{rules['african-ner']['sources']:+.1f}",
        "longer_all_ner": f"{rules['all-ner']['strange']:+.1f}",
    }


def gain(rows: dict[str, dict[str, float]]) -> float:
    return mean(one["new"] - one["old"] for one in rows.values())


def before(task: str) -> dict[str, float]:
    """F1 of the taggers of before on the languages left out: the runs that chose their noise."""
    old = {"pos": ("germanic:ciphers", "slavic:ciphers"), "ner": ("african:edits",)}[task]
    runs = read_results(WIDE / "choice.jsonl")
    found = {key: f1 for name in old for key, f1 in figures(runs[name]).items()}
    if task == "pos":
        far = read_json(WIDE / "all.json")["all-pos"]["left out"]
        found |= {key: own["before"] for key, own in far.items()}
    return {key: f1 for key, f1 in found.items() if key != "hr/romanised"}


def replaced(name: str) -> dict[str, Any]:
    """Apply the rule to a tagger: what it gains on languages left out, what it loses on its sources."""
    task, choice = FINALS[name], read_json(RESULTS / "choice.json")
    judged = {key: one for key, one in read_json(RESULTS / "judged.json")["f1"].items() if key.startswith(f"{name}/")}
    plain = {key: one for key, one in judged.items() if key.endswith("/as it is")}
    strange = {
        key: one
        for key, one in judged.items()
        if key not in plain and key.split("/")[1] not in GROUPS["african"].sources[1:]
    }
    result: dict[str, Any] = {"sources": gain(plain)}
    passed = result["sources"] >= -MOST_LOST
    if name == "all-ner":
        result["strange"] = gain(strange)
        return result | {"replaced": passed and result["strange"] >= -LEVEL}
    levers = [lever for lever in ADOPTABLE if lever in choice["adopted"][task]]
    own, old = choice["f1"][f"{levers[0] if levers else 'one'}.{task}"], before(task)
    languages = ("la", "grc") if name == "all-pos" else LEFT_OUT["ner"]
    keys = [key for key in old if key.split("/")[0] in languages]
    result["left out"] = mean(own[key] - old[key] for key in keys)
    return result | {"replaced": passed and result["left out"] >= LEVEL}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("levers", "choose", "train", "judge", "code", "ship", "alike"))
    parser.add_argument("names", nargs="*", help="taggers to judge [default: all], code or ship")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--output", type=Path, default=Path("runs/longer"))
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--jobs", type=int, default=4, help="processes that train side by side (0: this one)")
    given = parser.parse_args(arguments)
    places = Places(given.data, given.output, SHIPPED, given.encoder)
    if given.step == "levers":
        run_specs(lever_specs(), places, given.jobs)
    elif given.step == "choose":
        choose(given.output)
    elif given.step == "train":
        run_specs(final_specs(read_json(RESULTS / "choice.json")["adopted"]), places, given.jobs)
    elif given.step == "judge":
        judge(given.names, places)
    elif given.step == "code":
        for name in given.names:
            code(name, places)
    elif given.step == "ship":
        ship(given.names, given.data, given.output)
    else:
        alike(given.data, given.output)


if __name__ == "__main__":
    main()
