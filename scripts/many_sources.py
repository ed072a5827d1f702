"""Taggers that learn from many sources: choose how on languages left out, train, score and ship them.

    python scripts/wide_data.py DATA WIDE
    python scripts/many_sources.py levers --data WIDE --output RUN      # each lever, on languages left out
    python scripts/many_sources.py choose --output RUN                  # the rule of scripts/plans/README.md
    python scripts/many_sources.py train --data WIDE --output RUN       # what is to ship, then further seeds
    python scripts/many_sources.py compare --data WIDE --output RUN     # with the taggers that ship now, on the sources
    python scripts/many_sources.py before --data DATA --output RUN      # the tags of the taggers that ship now
    python scripts/many_sources.py ship african-ner all-ner --data DATA --output RUN    # reads the test files, once

What is measured is kept in docs/results/many-sources; `scripts/beyond.py report` writes docs/beyond.md from it. A run
that is done is not repeated.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from embedded_taggers import Places, load_saved, run_specs
from scores import DATA, DOCS, GROUP_OF, commit, markdown
from scores import RESULTS as EMBEDDED
from ship import SHIPPED, read_results
from strange_text import ALL_FORMS

from zgul.corpora.data_folder import DataFolder
from zgul.corpora.sentence import Sentence
from zgul.evaluation import bootstrap_f1, scores
from zgul.files import read_json, write_json
from zgul.languages import GROUPS, TARGETS, find
from zgul.tagging.loading import choose_inference, load
from zgul.tagging.serving import learnt_from

RESULTS = DOCS / "results" / "many-sources"
MADE = {  # how the taggers that ship were made
    "commit": "331be07",
    "machine": "one NVIDIA H200, torch 2.11, bf16",
    "command": "python scripts/many_sources.py train --data WIDE --output RUN",
    "note": "From the bare encoder. The run was shortened: scripts/plans/README.md says how.",
}
LEVEL = 0.3  # F1: smaller differences count as none
SEEDS = (0, 1, 2)
FURTHER = {
    "germanic": ("nl", "af", "da", "sv", "nb", "nn", "la", "grc"),
    "slavic": ("bg", "pl", "hr", "uk", "sk", "la", "grc"),
    "african": ("zu", "xh", "fon", "mos", "bbj"),
    "indo-aryan": (),
}
# Which languages a run leaves out together. None is the nearest relative of another one.
LEFT_OUT = {"pos": (("is", "cs"), ("de", "ru")), "ner": (("sw",), ("wo",))}
FORMS = ("", "noised", "shifted")  # of a dev set: see strange_text.py
NOISE = {
    "pos": {"sentences": 0.6, "words": 0.4, "edits": 1, "ciphers": 0.3, "romanised": 0.3},
    "ner": {"sentences": 0.6, "words": 0.4, "edits": 1},
}
COMMON: dict[str, Any] = {
    "method": "zgul", "batch_size": 128, "accumulate": 1, "language_lr": 0.1, "select": "last", "eval_every": 100_000,
    "related_letters": True, "options": {"encoder_rank": 16},
}  # fmt: skip
OF_TASK: dict[str, dict[str, Any]] = {
    "pos": {"lr": 5e-4, "epochs": 5, "unannotated": ["X"], "noise": NOISE["pos"]},
    "ner": {"lr": 1e-3, "epochs": 8, "decode": "sequence", "label_set_per_corpus": True, "noise": NOISE["ner"]},
}
SFT: dict[str, Any] = {"method": "sft-m", "lr": 2e-4, "options": {}}
# What is tried, each alone, beside "one": ZGUL over all sources of the task (NER: of the African group).
LEVERS: dict[str, dict[str, Any]] = {
    "one": {},
    "group": {},
    "features": {"options": {"encoder_rank": 16, "features": "all"}},
    "fusion-dropout": {"options": {"encoder_rank": 16, "fusion_dropout": 0.1}},
    "sft": SFT,
    "sft-group": SFT,
    "no-noise": {"noise": {}},
}
TITLES = {
    "one": "ZGUL, all sources",
    "group": "ZGUL, the sources of the language's group",
    "sft": "SFT-M, all sources",
    "sft-group": "SFT-M, the sources of the language's group",
    "features": "ZGUL, lang2vec with all 289 features",
    "fusion-dropout": "ZGUL, dropout of 0.1 on fusion's scores",
    "no-noise": "ZGUL, no spelling noise",
}
ADOPTABLE = ("features", "fusion-dropout")
REPLACES = {
    "all-pos": ("all-pos", "germanic-pos", "slavic-pos"),
    "african-ner": ("african-ner",),
    "all-ner": ("all-ner",),
}
COMPARED = 60  # sentences of each dev set, when a tagger is compared with the one that it would replace
LIMIT, FINAL_LIMIT = 2000, 6000  # sentences of each language: when levers are judged, and for what ships


def sources(groups: Iterable[str]) -> list[str]:
    """The sources of these groups, and the further ones."""
    return list(dict.fromkeys(code for group in groups for code in (*GROUPS[group].sources, *FURTHER[group])))


def groups_of(task: str) -> list[str]:
    """The groups whose taggers are made here. The Indo-Aryan one has no further sources."""
    return [name for name, group in GROUPS.items() if group.task == task and FURTHER[name]]


def configuration(task: str, codes: list[str], changes: dict[str, Any]) -> dict[str, Any]:
    return {**COMMON, "task": task, "sources": codes, **OF_TASK[task], **changes}


def lever_specs(names: Iterable[str], seeds: Iterable[int]) -> list[dict[str, Any]]:
    """Runs that leave languages out, and are scored on their dev sets. adapt_results.py needs those of "one"."""
    specs = []
    for seed in seeds:
        for name in names:
            for task, sets in LEFT_OUT.items():
                by_group = name.endswith("group")
                if by_group and task == "ner":
                    continue  # "one" is the group's
                for left in [(code,) for codes in sets for code in codes] if by_group else sets:
                    groups = [g for g in groups_of(task) if not by_group or left[0] in GROUPS[g].sources]
                    own = {"leave_out": list(left), "limit": LIMIT, "seed": seed} | LEVERS[name]
                    shifts = [*FORMS, *(["romanised"] if "ru" in left else [])]
                    spec: dict[str, Any] = {
                        "name": ".".join([name, "-".join(left), str(seed)]),
                        "config": configuration(task, sources(groups), own),
                        "test": [[code, "dev"] for code in left],
                        "shifts": shifts,
                        "save": name == "one" and seed == 0,
                    }
                    specs.append(spec | ({} if name.startswith("sft") else {"adapters": "adapters.safetensors"}))
    return specs


def final_specs(choice: dict[str, Any]) -> list[dict[str, Any]]:
    """The taggers that are to ship: one for each task over all sources, and one for a group where that is better."""
    specs = []
    for task in ("pos", "ner"):
        options = {"encoder_rank": 16}
        for lever in choice["adopted"][task]:
            options |= LEVERS[lever]["options"]
        apart = [] if task == "pos" and choice["one"] else groups_of(task)
        wanted = [(f"all-{task}", sources(name for name, group in GROUPS.items() if group.task == task), "")]
        wanted += [(f"{group}-{task}", sources([group]), group) for group in apart]
        for name, codes, group in wanted:
            own = {"options": options, "limit": FINAL_LIMIT if task == "pos" or group else 4000, "group": group}
            config = configuration(task, codes, own)
            specs.append({"name": name, "config": config, "adapters": "adapters.safetensors", "save": True})
    return specs


def left_out_f1(results: dict[str, Any], lever: str, seed: int = 0) -> dict[str, dict[str, float]]:
    """F1 by language left out and form, of the runs of a lever that are done."""
    found: dict[str, dict[str, float]] = {}
    for name, run in results.items():
        own, _, number = name.split(".") if name.count(".") == 2 else ("", "", "")
        if own == lever and int(number) == seed:
            for key, f1 in run["f1"].items():  # such as is/dev/shifted/plain
                language, _, *form, _ = key.split("/")
                found.setdefault(language, {})["".join(form) or "as it is"] = f1
    return found


def task_mean(f1: dict[str, dict[str, float]], task: str) -> float | None:
    """The mean over the languages of a task, each the mean over its forms. None if a language is missing."""
    languages = [code for codes in LEFT_OUT[task] for code in codes]
    if not set(languages) <= set(f1):
        return None
    return mean(mean(f1[code].values()) for code in languages)


def choose(run: Path) -> None:
    """Apply the rule to the runs on languages left out."""
    results = read_results(run / "results.jsonl")
    f1 = {lever: left_out_f1(results, lever) for lever in LEVERS}
    means = {lever: {task: task_mean(f1[lever], task) for task in LEFT_OUT} for lever in LEVERS}
    base = {task: means["one"][task] for task in LEFT_OUT}
    group = means["group"]["pos"]
    one = group is None or (base["pos"] is not None and base["pos"] >= group - LEVEL)
    adopted = {task: [lever for lever in ADOPTABLE if above(means[lever][task], base[task])] for task in LEFT_OUT}
    further = {str(seed): {lever: left_out_f1(results, lever, seed) for lever in LEVERS} for seed in SEEDS[1:]}
    about = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "machine": machine()}
    write_json(RESULTS / "choice.json", about | {"one": one, "adopted": adopted, "f1": f1, "further seeds": further})
    print({"one": one, "adopted": adopted, "means": means}, flush=True)


def above(own: float | None, other: float | None) -> bool:
    return own is not None and other is not None and own >= other + LEVEL


def machine() -> str:
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "a CPU"
    return f"{where}, torch {torch.__version__}"


def compare(data: Path, run: Path) -> None:
    """F1 of each new tagger and of those that it would replace, on sources' dev sets as they are and made strange."""
    found: dict[str, dict[str, float]] = {}
    adapters = SHIPPED / "adapters.safetensors"
    for new, olds in REPLACES.items():
        for old in olds:
            codes = learnt_from((), read_json(SHIPPED / old / "config.json")["about"])
            pair = {"new": run / "taggers" / new, "old": SHIPPED / old}
            taggers = {name: load_saved(folder, adapters, "embedded") for name, folder in pair.items()}
            for code in codes:
                dev = DataFolder(data).sentences(old.rpartition("-")[2], code, "dev")[:COMPARED]
                for form in FORMS:
                    changed, gold = ALL_FORMS[form](dev), [sentence.tags or [] for sentence in dev]
                    tags = {name: tagger.predict(changed, strategy="plain") for name, tagger in taggers.items()}
                    f1 = {name: scores(gold, [one.tags for one in own]).f1 for name, own in tags.items()}
                    found["/".join([new, old, code, form or "as it is"])] = f1
                    write_json(RESULTS / "compared.json", {"commit": commit(), "sentences": COMPARED, "f1": found})
            own = [f1 for name, f1 in found.items() if name.startswith(f"{new}/{old}/")]
            print(new, old, {name: round(mean(f1[name] for f1 in own), 2) for name in pair}, flush=True)


def before(data: Path, run: Path, targets: Iterable[str] = TARGETS) -> None:
    """Keep the tags that the shipped taggers, without adapted ones, give the test files before they are replaced."""
    tags = {target: tag(target, test(data, target)) for target in targets}
    write_json(run / "before.json", {"commit": commit(), "tags": tags})


def ship(names: list[str], data: Path, run: Path, made: dict[str, str] = MADE, kept: Path | None = None) -> None:
    """Put taggers into the package, score them once on the test files of their task, and note how they were made.

    The scores are kept in the folder ``kept``, or with those of this script.
    """
    old, results = json.loads((run / "before.json").read_text("utf-8"))["tags"], read_results(run / "results.jsonl")
    found: dict[str, Any] = {}
    provenance, lines = read_json(EMBEDDED / "provenance.json"), []
    for name in names:
        folder, to = run / "taggers" / name, SHIPPED / name
        task, group = name.rpartition("-")[2], GROUPS.get(name.rpartition("-")[0])
        shutil.copyfile(folder / "model.safetensors", to / "model.safetensors")
        f1 = {}
        for target in group.targets if group else [code for code in TARGETS if GROUP_OF[code].task == task]:
            sentences = test(data, target)
            gold, new = [sentence.tags or [] for sentence in sentences], tag(target, sentences, folder)
            f1[target] = {"after": scores(gold, new).f1}
            if group:
                difference = bootstrap_f1(gold, new, old[target])
                f1[target] |= {"before": scores(gold, old[target]).f1, "low": difference.low, "high": difference.high}
            print(name, target, f1[target], flush=True)
        measured = {
            f"{code}/test/{kind}": round(own["after"], 3) for code, own in f1.items() for kind in ("plain", "em")
        }
        config = read_json(folder / "config.json")
        config["about"] |= {"scores": {"9-bit": measured}}
        write_json(to / "config.json", config)
        lines.append(json.dumps(results[name] | {"f1_9bit": measured}))
        provenance[name] = {"date": time.strftime("%Y-%m-%d"), "seed": 0} | made
        found[name] = f1
    about = {"commit": commit(), "date": time.strftime("%Y-%m-%d")}
    write_json((kept or RESULTS) / "targets.json", about | {"f1": found})
    write_json(EMBEDDED / "provenance.json", provenance)
    with (EMBEDDED / "results.jsonl").open("a") as file:
        file.write("\n".join(lines) + "\n")


def test(data: Path, target: str) -> list[Sentence]:
    """The test file of a target."""
    return DataFolder(data).sentences(GROUP_OF[target].task, target, "test")


def tag(target: str, sentences: list[Sentence], model: Path | None = None) -> list[list[str]]:
    """The tags of the shipped tagger, or of another, in full precision and with the EM settings that users get."""
    task = GROUP_OF[target].task
    if model is not None:
        tagger = load_saved(model, SHIPPED / "adapters.safetensors", "embedded")
        return [one.tags for one in tagger.predict(sentences, **vars(choose_inference(tagger, target)))]
    served = load(target, task, adapted=False, precision="float32")
    return [one.tags for one in served.taggers[task].predict(sentences, **vars(served.inference[task]))]


def lever_table(choice: dict[str, Any], task: str) -> str:
    """A row for each lever and seed: F1 by language, and the change from "one" with the same seed and languages."""
    languages = [code for codes in LEFT_OUT[task] for code in codes]
    by_seed = {0: choice["f1"]} | {int(seed): f1 for seed, f1 in choice["further seeds"].items()}
    rows = []
    for (lever, title), (seed, f1) in product(TITLES.items(), sorted(by_seed.items())):
        own = {code: mean(forms.values()) for code, forms in f1.get(lever, {}).items() if code in languages}
        base = {code: mean(f1["one"][code].values()) for code in own if code in f1.get("one", {})}
        if own:
            figures = [f"{own[code]:.1f}" if code in own else "–" for code in languages]
            change = f"{mean(own[code] - base[code] for code in base):+.1f}" if base and lever != "one" else ""
            rows.append([title, str(seed), *figures, change])
    return markdown([task.upper(), "seed", *(str(find(code)) for code in languages), "change"], rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("levers", "choose", "train", "compare", "before", "ship"))
    parser.add_argument("names", nargs="*", help="taggers to ship")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--output", type=Path, default=Path("runs/wide"))
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--jobs", type=int, default=4, help="processes that train side by side (0: this one)")
    given = parser.parse_args(arguments)
    places = Places(given.data, given.output, SHIPPED, given.encoder)
    if given.step == "levers":
        run_specs(lever_specs(LEVERS, SEEDS[:1]), places, given.jobs)
    elif given.step == "choose":
        choose(given.output)
    elif given.step == "train":
        finals = final_specs(read_json(RESULTS / "choice.json"))
        run_specs([*finals, *lever_specs(("one", "sft"), SEEDS[1:])], places, given.jobs)
    elif given.step == "compare":
        compare(given.data, given.output)
    elif given.step == "before":
        before(given.data, given.output)
    else:
        ship(given.names, given.data, given.output)


if __name__ == "__main__":
    main()
