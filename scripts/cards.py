"""Write the cards of shipped taggers and adapters, and the tables of docs/adapters.md and docs/taggers.md.

    python scripts/cards.py [--results docs/results/embedded] [--shipped src/zgul/shipped] [--docs docs]

Figures come from RESULTS (adapters.json, results.jsonl, provenance.json, recoded.json, scores.json) and from the
taggers' own config.json. The prose of the cards is in scripts/cards. In the docs, only the text between
``<!-- cards: NAME -->`` and ``<!-- end -->`` is replaced.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from scores import DOCS, GOALS, GROUP_OF, RESULTS, markdown, paper_f1, scores_table
from ship import SHIPPED, read_results, shipped_bits

from zgul.evaluation import mean_std
from zgul.files import atomic_write, read_json
from zgul.languages import GROUPS, SOURCES, TARGETS, find, most_related
from zgul.paper.numbers import printed_average as paper_average
from zgul.tagging.serving import learnt_from

ADAPTING = DOCS / "results" / "adapt"
TEXTS = Path(__file__).with_name("cards")
DEV = "the sources' dev sets"
FACTS: dict[str, Any] = read_json(TEXTS / "facts.json")
LOSS = 0.1  # F1 that fewer bits may cost on a target
TASKS = {"pos": "Parts of speech (UPOS)", "ner": "Named entities (BIO)"}
SOURCE_HEADS = ["held-out text", "own adapter", "best of the others", "none", "shared start", "even mixture", "best"]
TARGET_HEADS = ["text", "related", "best unrelated", "mean of the unrelated", "none", "even mixture", "best"]
GROUP_HEADS = ["group", "its tagger", "the one over all sources", "our SFT-M", "the paper's ZGUL", "goal"]
CURVE_FILES = {"test": "test file", "dev": "dev file"}
CURVE_HEADS = ["language", "task", "sentences"]
CURVE_HEADS += [head for name in CURVE_FILES.values() for head in (f"{name}, before", "after", "gain (95 %)")]
CURVE_HEADS += ["minutes of a core", "GB"]
Table = dict[str, Any]  # text -> adapter -> masked accuracy and perplexity


class Recorded:
    """The recorded results: runs by name, the adapters' figures, provenance, scores."""

    def __init__(self, folder: Path) -> None:
        self.runs = read_results(folder / "results.jsonl")
        self.adapters: dict[str, Any] = read_json(folder / "adapters.json")
        self.provenance: dict[str, Any] = read_json(folder / "provenance.json")
        path = folder / "scores.json"
        self.scores: dict[str, Any] = read_json(path)["scores"] if path.is_file() else {}
        path = folder / "recoded.json"
        self.recoded: dict[str, Any] = read_json(path) if path.is_file() else {}

    def sft(self, target: str) -> float | None:
        """F1 of our SFT-M under the same noise and label treatment."""
        run = self.runs.get(f"sft:{GROUP_OF[target].name}", {})
        value: float | None = run.get("f1", {}).get(f"{target}/test/plain")
        return value


@dataclass(frozen=True)
class Card:
    """A shipped tagger and what is recorded about it."""

    name: str
    config: dict[str, Any]
    size: int  # bytes
    run: dict[str, Any]  # its line in results.jsonl: F1 in full precision ("f1") and as it was saved
    scores: dict[str, float]  # F1 by `make scores`
    recoded: dict[str, Any]  # if it was coded in fewer bits after it was made: what that changed

    @property
    def bits(self) -> int:
        """In how many bits it was saved when it was made."""
        return shipped_bits(self.run)

    @property
    def saved_f1(self) -> dict[str, float]:
        """F1 of the saved form when it was made."""
        return self.run.get(f"f1_{self.bits}bit", {})

    @property
    def targets(self) -> list[str]:
        """The languages that it was measured on, in the paper's order."""
        return [target for target in TARGETS if self.f1(target) is not None]

    def steps(self, target: str) -> int:
        """The number of EM steps for a language."""
        em = self.config["em"]
        return int((em.get(target) or em.get("") or {"steps": 0})["steps"])

    def f1(self, target: str) -> float | None:
        """F1 as it ships: by `make scores`, else as measured when it was made."""
        kind = "em" if self.steps(target) else "plain"
        return self.scores.get(target, self.saved_f1.get(f"{target}/test/{kind}"))

    def precisions(self, target: str) -> tuple[float, float] | None:
        """F1 in full precision and as saved, with EM if it is on and both were measured with EM."""
        for kind in ("em", "plain") if self.steps(target) else ("plain",):
            key = f"{target}/test/{kind}"
            if key in self.run.get("f1", {}) and key in self.saved_f1:
                return self.run["f1"][key], self.saved_f1[key]
        return None

    def loss(self, target: str) -> float:
        """The F1 that fewer bits cost; 0 if that was not measured."""
        full, saved = self.precisions(target) or (0.0, 0.0)
        return full - saved


def read_cards(folder: Path, recorded: Recorded) -> list[Card]:
    cards = []
    for path in sorted(folder.glob("*/config.json")):
        name = path.parent.name
        size = (path.parent / "model.safetensors").stat().st_size
        own = {code: result["f1"] for code, result in recorded.scores.items() if result["model"] == name}
        again = recorded.recoded.get(name, {})
        again = again if again.get("recoded") else {}
        cards.append(Card(name, read_json(path), size, recorded.runs.get(name, {}), own, again))
    return cards


def figure(value: float | None, form: str = ".1f") -> str:
    return "–" if value is None else format(value, form)


def average(values: Iterable[float | None]) -> float | None:
    kept = list(values)
    return None if None in kept or not kept else mean(value for value in kept if value is not None)


def bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"


# --- cards of taggers


def tagger_card(card: Card, recorded: Recorded) -> str:
    config, group = card.config, card.config["about"]["training"]["group"]
    use = f"every language that relatedness puts in the {group} group"
    use = use if group else "a language outside every group, and for the task that a language's own group lacks"
    heads = ["", "F1", "the paper's ZGUL", "our SFT-M", "EM steps", "full precision", f"{card.bits} bits", "change"]
    data = []
    for source in learnt_from(config["sources"], config["about"]):
        key = f"{config['task']}/{source}" + "/panx" * (source == "en" and group == "indo-aryan")
        data.append([str(find(source)), FACTS["data"][key]])
    return (
        (TEXTS / "tagger.md")
        .read_text()
        .format(
            name=card.name,
            task=TASKS[config["task"]],
            sources=", ".join(find(source).name for source in learnt_from(config["sources"], config["about"])),
            use=f"Used for {use}",
            bits=card.bits,
            scores=markdown(heads, score_rows(card, recorded)),
            weaknesses=bullets(weaknesses(card, recorded)),
            facts=bullets(facts(card, recorded)),
            data=markdown(["labelled", "from"], data, words=2),
        )
    )


def score_rows(card: Card, recorded: Recorded) -> list[list[str]]:
    """A line for each target, and the average of each group that was measured as a whole."""
    rows = []
    for group in GROUPS.values():
        targets = [target for target in group.targets if target in card.targets]
        for target in targets:
            figures = [figure(value) for value in (card.f1(target), paper_f1(target), recorded.sft(target))]
            rows.append([str(find(target)), *figures, str(card.steps(target) or "–"), *precision_figures(card, target)])
        if len(targets) == len(group.targets):
            own, sft = (average(f(target) for target in targets) for f in (card.f1, recorded.sft))
            figures = [figure(value) for value in (own, paper_average(group.name, "ZGUL"), sft)]
            rows.append([f"**{group.name}**", *figures, *[""] * 4])
    return rows


def precision_figures(card: Card, target: str) -> list[str]:
    """F1 in full precision, as saved, and the difference."""
    full, saved = card.precisions(target) or (None, None)
    if full is None or saved is None:
        return [figure(None)] * 3
    return [figure(full, ".2f"), figure(saved, ".2f"), figure(saved - full, "+.2f")]


def weaknesses(card: Card, recorded: Recorded) -> list[str]:
    """The known weaknesses: first those that the figures show, then others."""
    lines = []
    if over := [f"{find(t)} ({card.loss(t):.2f})" for t in card.targets if card.loss(t) > LOSS]:
        lines.append(f"{card.bits} bits cost more than {LOSS} F1 on {', '.join(over)}.")
    if unknown := [str(find(target)) for target in card.targets if card.precisions(target) is None]:
        lines.append(f"What {card.bits} bits cost was not measured on {', '.join(unknown)}.")
    if card.recoded and (old := [str(find(target)) for target in card.targets if target not in card.scores]):
        lines.append(f"It ships in {card.recoded['bits']} bits since. The scores of {', '.join(old)} are from before.")
    for name, other in (("the paper's ZGUL", paper_f1), ("our SFT-M", recorded.sft)):
        pairs = [(target, card.f1(target) or 0.0, other(target)) for target in card.targets]
        if below := [f"{find(t)} ({own:.1f}, {value:.1f})" for t, own, value in pairs if value and own < value]:
            lines.append(f"Below {name} on {', '.join(below)}.")
    known = FACTS["weaknesses"]
    lines += known.get(card.name, []) + known[card.config["task"]]
    return [*lines, "One seed; differences under about one point of F1 are noise."]


def facts(card: Card, recorded: Recorded) -> list[str]:
    """How a tagger was made."""
    config, training = card.config, card.config["about"]["training"]
    origin = recorded.provenance.get(card.name) or recorded.provenance["taggers"]
    noise, limit = training["noise"], f"at most {training['limit']:,}" if training["limit"] else "all"
    sources = ", ".join(find(source).name for source in config["sources"])
    lines = [
        f"ZGUL on the embedded encoder (12 layers, width 384, frozen) with updates of rank "
        f"{config['options']['encoder_rank']} to its matrices, over the language adapters of {sources}",
        f"{training['epochs']} epochs, batches of {training['batch_size']}, learning rate {training['lr']:g} "
        f"({training['language_lr']:g} of it for lang2vec), {limit} sentences of a language, "
        f"character noise in {noise['words']:.0%} of the words of {noise['sentences']:.0%} of the sentences"
        + (f", letter ciphers in {noise['ciphers']:.0%} of them" if noise.get("ciphers") else "")
        + (f", {noise['romanised']:.0%} of those in other scripts romanised" if noise.get("romanised") else ""),
        f"the {'last weights' if training['select'] == 'last' else f'weights with the best F1 on {DEV}'}; "
        f"seed {training['seed']}; no target data in training",
        f"merged, {card.bits} bits, {megabytes(card.size)} MB" if not card.recoded else coded_again(card),
    ]
    if start := training.get("start"):
        lines.insert(1, f"trained further on more languages, from the {start} of before")
    if config["decode"] == "sequence":
        lines.append("its tags are the most probable sequence that IOB2 allows")
    if config["related_letters"]:
        lines.append("letters that the encoder does not know are read as related ones, by the Unicode standard")
    if config.get("strip_marks"):
        lines.append("sentences full of marks of stress, length and tone are read without them")
    if em := config["about"].get("em"):
        lines.append(f"EM settings chosen on {em['by']}; EM that did not raise F1 there is switched off")
    lines.append(f"made {origin['date']} at commit {origin['commit']}, on {origin['machine']}")
    rest = "before and after it: `scripts/beyond.py`" if start else "everything else: `make recipe DATA=DIR OUT=RUN`"
    return [*lines, f"`{origin['command']}`; {rest}"]


def coded_again(card: Card) -> str:
    """What fewer bits changed on the dev files of the sources."""
    dev = card.recoded["dev"].items()
    f1 = ", ".join(f"{find(code).name} {one['before']:.2f} to {one['after']:.2f}" for code, one in dev)
    return (
        f"merged, {card.bits} bits. Coded in {card.recoded['bits']} bits ({megabytes(card.size)} MB) on "
        f"{card.recoded['date']}, which changed F1 on dev files of the sources so: {f1}"
    )


# --- language adapters


def adapters_card(recorded: Recorded, folder: Path, cards: Sequence[Card]) -> str:
    settings, size = recorded.adapters["arguments"], (folder / "adapters.safetensors").stat().st_size
    taggers = [[f"[{card.name}]({card.name}/README.md)", f"{megabytes(card.size)} MB"] for card in cards]
    return (
        (TEXTS / "adapters.md")
        .read_text()
        .format(
            **({"note": ""} | settings | recorded.provenance["adapters"]),
            megabytes=megabytes(size),
            total=megabytes(sum(path.stat().st_size for path in folder.rglob("*.safetensors"))),
            count=len(recorded.adapters["sources"]),
            taggers=markdown(["tagger", "weights"], taggers),
            scores=markdown(SOURCE_HEADS, source_rows(recorded.adapters["results"]["mixed"])),
        )
    )


def measured(pair: Sequence[float]) -> str:
    return f"{pair[0]:.1f} ({pair[1]:,.0f})"


def source_rows(table: Table) -> list[list[str]]:
    """Each source's held-out text: its own adapter, the best of the others, none, the shared start, the mixture."""
    rows = []
    for source in SOURCES:
        row = table[source]
        other = max((code for code in SOURCES if code != source), key=lambda code: row[code][0])
        figures = [measured(row[source]), f"{measured(row[other])} {other}"]
        figures += [measured(row[name]) for name in ("none", "shared", "uniform")]
        best = max(row, key=lambda name: row[name][0])
        rows.append([str(find(source)), *figures, "own" if best == source else "**not own**"])
    return rows


def related(target: str) -> tuple[str, list[str]]:
    """The most related source, and those outside the target's group."""
    return most_related(target, SOURCES), [code for code in SOURCES if code not in GROUP_OF[target].sources]


def target_rows(table: Table) -> list[list[str]]:
    """Each target's text: the related source's adapter against those of sources outside its group."""
    rows = []
    for target in (code for code in TARGETS if code in table):
        row, (own, outside) = table[target], related(target)
        best = max(outside, key=lambda code: row[code][0])
        verdict = "related" if row[own][0] > row[best][0] else f"**{best}**"
        figures = [f"{measured(row[own])} {own}", f"{measured(row[best])} {best}"]
        figures += [f"{mean(row[code][0] for code in outside):.1f}", measured(row["none"]), measured(row["uniform"])]
        rows.append([str(find(target)), *figures, verdict])
    return rows


# --- docs


def group_rows(cards: Sequence[Card], recorded: Recorded) -> list[list[str]]:
    """Group averages of the taggers made for the groups, and of those over all sources."""
    by_name = {card.name: card for card in cards}
    rows = []
    for group in GROUPS.values():
        both = [by_name.get(f"{name}-{group.task}") for name in (group.name, "all")]
        values = [average(card.f1(target) for target in group.targets) if card else None for card in both]
        values += [average(map(recorded.sft, group.targets)), paper_average(group.name, "ZGUL"), GOALS[group.name]]
        rows.append([group.name, *map(figure, values)])
    return rows


def precision_rows(cards: Sequence[Card]) -> list[list[str]]:
    """What fewer bits change, for every tagger and target."""
    return [
        [card.name, str(find(t)), *precision_figures(card, t), f"**over {LOSS}**" if card.loss(t) > LOSS else ""]
        for card in cards
        for t in card.targets
    ]


def provenance(recorded: Recorded) -> str:
    return bullets(
        f"{name}: {entry['date']}, commit {entry['commit']}, {entry['machine']}, seed {entry['seed']}; "
        f"`{entry['command']}`" + (f". {entry['note']}" if "note" in entry else "")
        for name, entry in recorded.provenance.items()
    )


def doc_blocks(cards: Sequence[Card], recorded: Recorded) -> dict[str, str]:
    """The parts of the docs that are generated, by name."""
    made = {
        "scores": scores_table(recorded.scores),
        "groups": markdown(GROUP_HEADS, group_rows(cards, recorded)),
        "precision": markdown(
            ["tagger", "language", "full", "shipped", "difference", ""], precision_rows(cards), words=2
        ),
        "provenance": provenance(recorded),
    }
    for variant, table in recorded.adapters["results"].items():
        made[f"sources {variant}"] = markdown(SOURCE_HEADS, source_rows(table))
        made[f"targets {variant}"] = markdown(TARGET_HEADS, target_rows(table))
    return made


def adapting_blocks(folder: Path) -> dict[str, str]:
    """The tables of docs/adapt.md: the adapted taggers that ship, and the recipe on languages left out, on a GPU."""
    return {
        "adapted": adapted_table(folder / "shipped.json"),
        "not shipped": adapted_table(folder / "not-shipped.json"),
        "left out": left_out_table(folder / "left-out.jsonl"),
        "curves": markdown(CURVE_HEADS, curve_rows(folder / "curves.jsonl"), words=2),
    }


def left_out_table(path: Path) -> str:
    """F1 on languages left out, before and after each recipe that was run on all cases of its task."""
    cases: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for line in map(json.loads, path.read_text("utf-8").splitlines()):
        cases.setdefault((line["task"], line["language"], line["case"]), {})[line["recipe"]] = line
    recipes = list(dict.fromkeys(recipe for own in cases.values() for recipe in own))
    rows = []
    for (task, language, case), own in sorted(cases.items()):
        name = f"{find(language).name}{', other letters' * ('shifted' in case)}"
        f1 = {recipe: line["dev_after"] for recipe, line in own.items()}
        after = [f"{f1[recipe]:.1f}" if recipe in f1 else "–" for recipe in recipes]
        rows.append([name, task.upper(), f"{next(iter(own.values()))['dev_before']:.1f}", *after])
    heads = ["language left out", "task", "before", *(f"`{recipe}`" for recipe in recipes)]
    return markdown(heads, rows, words=2)


def adapted_table(path: Path) -> str:
    """Targets before and after adapting to raw text."""
    found = read_json(path)["targets"]
    rows = []
    for code in (target for target in TARGETS if target in found):
        one = found[code]
        spread = f"{one['difference']['low']:+.1f} to {one['difference']['high']:+.1f}"
        rows.append([str(find(code)), f"{one['before']:.1f}", f"**{one['after']:.1f}**", spread])
    return markdown(["language", "zero-shot", "adapted", "difference (95 %)"], rows)


def curve_rows(path: Path) -> list[list[str]]:
    """What labelled sentences bring: a row for each language and number of sentences, with the mean over its seeds."""
    cells: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in map(json.loads, path.read_text("utf-8").splitlines() if path.is_file() else ()):
        cells.setdefault((line["language"], line["count"]), []).append(line)
    order = list(dict.fromkeys(code for code, _ in cells))
    rows = []
    for code, count in sorted(cells, key=lambda cell: (order.index(cell[0]), cell[1])):
        runs = cells[code, count]
        minutes, memory = mean(run["cpu_seconds"] for run in runs) / 60, max(run["megabytes_of_memory"] for run in runs)
        figures = [one for file in CURVE_FILES for one in changes([run[file] for run in runs])]
        cost = [f"{minutes:.1f}", f"{memory / 1000:.1f}"]
        rows.append([str(find(code)), runs[0]["task"].upper(), str(count), *figures, *cost])
    return rows


def changes(runs: Sequence[dict[str, Any]]) -> list[str]:
    """F1 before and after, and the gain: the mean over seeds, and the widest interval."""
    before, after = runs[0]["before"], mean_std([run["after"] for run in runs])
    low, high = min(run["difference"]["low"] for run in runs), max(run["difference"]["high"] for run in runs)
    spread = f" ± {after.std:.1f}" if after.std is not None else ""
    gain = f"{after.mean - before:+.1f} ({low:+.1f} to {high:+.1f})" if low or high else "undone"
    return [f"{before:.1f}", f"**{after.mean:.1f}**{spread}", gain]


def fill(text: str, made: dict[str, str]) -> str:
    """The text with its blocks written again."""
    block = re.compile(r"(<!-- cards: ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
    return block.sub(lambda match: match[1] + made[match[2]] + match[3], text)


def keep(run: Path, folder: Path = RESULTS) -> None:
    """Copy the results of a recipe's run into the docs."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("adapters.json", "results.jsonl", "provenance.json"):
        shutil.copyfile(run / name, folder / name)


def write_all(results: Path, shipped: Path, docs: Path) -> None:
    """Write all cards, and the generated blocks of the pages that exist."""
    recorded = Recorded(results)
    cards = read_cards(shipped, recorded)
    texts = {shipped / card.name / "README.md": tagger_card(card, recorded) for card in cards}
    texts[shipped / "README.md"] = adapters_card(recorded, shipped, cards)
    for path in (docs / "adapters.md", docs / "taggers.md", docs / "adapt.md"):
        if path.is_file():
            made = doc_blocks(cards, recorded) | adapting_blocks(ADAPTING)
            texts[path] = fill(path.read_text(encoding="utf-8"), made)
    for path, text in texts.items():
        with atomic_write(path) as file:
            file.write(text)
    print(f"{len(texts)} files written")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--shipped", type=Path, default=SHIPPED)
    parser.add_argument("--docs", type=Path, default=DOCS)
    write_all(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
