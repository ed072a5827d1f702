"""Tables beside F1: tuning, EM's choices, attention against relatedness, classes, cost, data, examples, runs."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import Any

import numpy as np

from zgul.evaluation import MeanStd
from zgul.languages import GROUPS, find, similarity
from zgul.languages.relatedness import Kind
from zgul.paper import numbers
from zgul.paper.frame import Frame, average, choose_settings, encoder_of, spread
from zgul.paper.report.document import (
    TABLES,
    Cell,
    Item,
    ReportTable,
    bold_best,
    cell,
    group_title,
    listed,
    table,
    text,
)
from zgul.paper.rows import COMPARED, TRAINED
from zgul.paper.store import Score

WEIGHTS: dict[str, str] = TABLES["weights"]
MEASURES: tuple[Kind, ...] = ("average", "genetic", "syntactic")  # of relatedness
RANDOM_START = "random start"  # the variant whose attention networks start at random
STRONG, WEAK = 0.5, 0.2  # correlations from which weights follow relatedness, and weakly
MICRO = "Micro-F1"  # the last row of the tables of classes


def tuning_table(frame: Frame, task: str) -> ReportTable | None:
    """Dev F1 of each rate that was tried for the methods of a task, the chosen one marked."""
    tuned = [tried for tried in choose_settings(frame.runs_of("tuning")) if tried.task == task]
    rates = sorted({rate for tried in tuned for rate, _ in tried.dev_f1})
    rows = {}
    for tried in sorted(tuned, key=lambda tried: TRAINED.index(tried.method)):
        for reduction in sorted({reduction for _, reduction in tried.dev_f1}, key=lambda value: value or 0):
            title = tried.method + (f", reduction {reduction:g}" if reduction else "")
            cells = {rate: Cell(tried.dev_f1.get((rate, reduction)), digits=2) for rate in rates}
            if tried.chosen[1] == reduction:
                cells[tried.chosen[0]] = replace(cells[tried.chosen[0]], bold=True, mark=" ←")
            rows[title] = cells.values()
    names = {"sft": "SFT Learning Rate", "adapters": "Learning Rate", "reductions": "Reduction Factor"}
    words = {word: listed(map(_rate, numbers.GRID[name])) for word, name in names.items()} | {"task": task.upper()}
    words["groups"] = " and ".join(dict.fromkeys(group_title(group) for tried in tuned for group in tried.groups))
    return table(f"tuning/{task}", rows, ("Method", *map(_rate, rates)), words)


def _rate(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"{value:.0e}".replace("e-0", "e-")


def em_choices_table(frame: Frame) -> ReportTable | None:
    """How often EM was chosen, and what it gained on the dev sets that chose it and on the targets."""
    rows: dict[str, list[Item]] = {}
    for row, without in TABLES["em-choices"].items():
        f1 = {(e.score.row, e.run.hash, e.score.language): e.score.f1 for r in (row, without) for e in frame.entries(r)}
        choices = []  # whether EM was chosen, its gain on dev, its gain on the target
        for run in frame.runs_of("zero-shot"):
            for code, em in run.facts.get("em", {}).get(row, {}).items():
                if "f1_without_em" in em and (row, run.hash, code) in f1:
                    gain = f1[row, run.hash, code] - f1[without, run.hash, code]
                    choices.append((em["steps"] > 0, em["f1"] - em["f1_without_em"], gain))
        if choices:
            chosen = [choice for choice in choices if choice[0]]
            gains = [[choice[place] for choice in used] for place in (1, 2) for used in (chosen, choices)]
            rows[row] = [len(choices), len(chosen), gains[0].count(0)]
            rows[row] += [mean(values) if values else None for values in gains]
    return table("em-choices", rows, digits=2)


def weights(frame: Frame, kind: str, group: str, variant: str = "", facts: str = "weights") -> list[dict[str, Any]]:
    """Mean weights by target and source, for each seed that has them. Those before training are other ``facts``."""
    runs = frame.runs_of("variants" if variant else "zero-shot", group)
    tables = [run.facts.get(facts, {}).get(kind) or {} for run in runs if run.extra.get("variant", "") == variant]
    chosen = ({code: table[code] for code in GROUPS[group].targets if code in table} for table in tables)
    return [table for table in chosen if table]


def correlation(by_target: Mapping[str, Mapping[str, float]]) -> float | None:
    """Pearson's correlation of weight and average similarity over all pairs of target and source."""
    pairs = [(w, similarity(target, source)) for target, row in by_target.items() for source, w in row.items()]
    first, second = np.array(pairs).T
    if min(first.std(), second.std()) < 1e-9:
        return None  # all weights are equal: no correlation is defined
    return float(np.corrcoef(first, second)[0, 1])


def group_correlation(frame: Frame, kind: str, group: str, *which: str) -> MeanStd | None:
    """The correlation in a group over seeds; ``which`` as in `weights`."""
    values = map(correlation, weights(frame, kind, group, *which))
    return spread(value for value in values if value is not None)


def correlation_table(frame: Frame) -> ReportTable | None:
    """The paper's table of correlations, the untrained value beside the trained one, and random starts below."""
    rows = {}
    for variant in ("", RANDOM_START):
        for group in GROUPS:
            cells = []
            for kind in WEIGHTS:
                trained = group_correlation(frame, kind, group, variant)
                cells.append(cell(trained, numbers.CORRELATION.get(group, kind) if trained else None, digits=2))
                cells.append(cell(group_correlation(frame, kind, group, variant, "weights_untrained"), digits=2))
            if not all(item.is_text for item in cells):
                rows[", ".join(filter(None, (group_title(group), variant)))] = cells
    return table("correlation", rows)


def attention_summary(frame: Frame) -> list[str]:
    """Do the weights follow relatedness? Random starts decide, if there are runs with them."""
    variants = {run.extra.get("variant") for run in frame.runs_of("variants")}
    variant = RANDOM_START if RANDOM_START in variants else ""
    answers = []
    for kind in ("lang2vec", "fusion"):
        values = {group: group_correlation(frame, kind, group, variant) for group in GROUPS}
        judged = listed(f"{follows(value.mean)} in {group_title(group)}" for group, value in values.items() if value)
        answers += [f"{WEIGHTS[kind]}: {judged}"] if judged else []
    source = "from random starts" if variant else "from starts at typological likeness"
    return [text("attention", source=source, answers=". ".join(answers), strong=STRONG, weak=WEAK)] if answers else []


def follows(correlation: float) -> str:
    """In a word, whether weights with this correlation follow relatedness."""
    seen = round(correlation, 2)
    return "yes" if seen >= STRONG else "weakly" if seen >= WEAK else "in reverse" if seen <= -WEAK else "no"


def language_weights_table(frame: Frame, group: str, language: str) -> ReportTable | None:
    """The weights of the sources on one target, and how related they are."""
    sources = GROUPS[group].sources
    rows: dict[str, list[Item]] = {}
    for kind, title in WEIGHTS.items():
        if seeds := [by_target[language] for by_target in weights(frame, kind, group) if language in by_target]:
            rows[f"{title} weight"] = [spread(seed.get(source, 0.0) for seed in seeds) for source in sources]
    for measure in MEASURES if rows else ():
        rows[f"{measure} similarity"] = [similarity(language, source, measure) for source in sources]
    heads, words = ("", *(find(source).name for source in sources)), {"language": find(language).name}
    return table(f"weights/{language}", rows, heads, words, rules=["average similarity"], digits=2)


def classes_table(frame: Frame, task: str, language: str = "") -> ReportTable | None:
    """F1 of each class, averaged over the languages that have it, or of one language."""
    targets = {c for group in GROUPS.values() if group.task == task for c in group.targets if language in ("", c)}
    scored = {row: [e for e in frame.entries(row) if e.score.language in targets] for row in COMPARED}
    by_row = {row: entries for row, entries in scored.items() if entries}
    support: dict[str, Counter[str]] = defaultdict(Counter)  # class -> language -> gold chunks
    for score in (entry.score for entry in next(iter(by_row.values()), [])):
        for name in (name for name, values in score.per_class.items() if values["support"]):
            support[name][score.language] = int(score.per_class[name]["support"])
    printed, rows = numbers.CLASSES[task].values, {}
    order = sorted(support, key=lambda name: ([*printed, name].index(name), name))
    support[MICRO] = sum(support.values(), Counter())
    for name in (*order, MICRO) if order else ():

        def class_f1(score: Score, name: str = name) -> float:
            return score.f1 if name == MICRO else score.per_class.get(name, {}).get("f1", 0.0)

        counts, paper = support[name], {} if language else printed.get(name, {})
        f1 = [average(entries, counts, class_f1) for entries in by_row.values()]
        cells = bold_best(cell(own, paper.get(row)) for own, row in zip(f1, by_row, strict=True))
        rows[name] = [*cells, cell(counts.total(), paper.get("support"))]
    where = find(language).name if language else "averaged over all languages that have the class"
    words = {"task": task.upper(), "where": where}
    return table(f"classes/{language or task}", rows, ("Class", *by_row, "Support"), words, rules=[MICRO])


def cost_table(frame: Frame) -> ReportTable | None:
    """Trainable parameters and seconds of an epoch."""
    groups, rows = frame.groups(), {}
    for title, method in TABLES["cost"].items():
        if runs := [run for run in frame.runs_of("zero-shot", method=method) if "seconds_per_epoch" in run.facts]:
            millions = mean(run.facts["trainable"] / 1e6 for run in runs)
            rows[title] = [cell(millions, numbers.COST.get(title, "parameters"))]
            for group in groups:
                minutes = numbers.COST.get(title, group)
                times = spread(run.facts["seconds_per_epoch"] for run in runs if run.group == group)
                rows[title].append(cell(times, minutes and 60 * minutes))
    heads = (("Seconds of an epoch", group_title(group)) for group in groups)
    return table("cost", rows, ("Method", "Parameters, M", *heads))


def data_groups_table(frame: Frame) -> ReportTable | None:
    """The training data that there is."""
    rows: dict[str, list[Item]] = {}
    for row in (frame.analyses.get("statistics") or {}).get("groups", ()):
        missing = f" (without {listed(row['missing'])})" if row["missing"] else ""
        sizes = (cell(row[split], row[f"paper_{split}"]) for split in ("train", "dev"))
        tags = " ".join(row["test_tags"])
        rows[group_title(row["group"])] = [row["task"].upper(), listed(row["sources"]) + missing, *sizes, tags]
    return table("data-groups", rows)


def data_targets_table(frame: Frame, language: str = "") -> ReportTable | None:
    """The test files, or one of them."""
    rows: dict[str, list[Item]] = {}
    for row in (frame.analyses.get("statistics") or {}).get("targets", ()):
        if language in ("", row["language"]):
            printed = "" if row["script"] == row["paper_script"] else f" (paper: {row['paper_script']})"
            size, overlap = (cell(row[name], row[f"paper_{name}"]) for name in ("sentences", "overlap"))
            title = f"{find(row['language']).name} ({row['language']})"
            rows[title] = [group_title(row["group"]), row["script"] + printed, size, overlap]
    return table(f"data-targets/{language}" if language else "data-targets", rows)


def example_table(item: dict[str, Any], number: int = 0) -> ReportTable | None:
    """A sentence with its gold tags and what each method says. One of the paper's has its tags there, too."""
    rows = {"gold": [cell(tag) for tag in item["gold"]]}
    for row in COMPARED:
        pairs = zip(item["tags"][row], item["gold"], strict=True)
        rows[row] = [Cell(text=tag, bold=tag != gold) for tag, gold in pairs]
    words = {"where": f"{find(item['language']).name}, test sentence {item['sentence']}, seed {item['seed']}"}
    for example in (example for example in numbers.EXAMPLES if example.label == item.get("label")):
        words["words"] = example.words
        words["tags"] = "; ".join(f"{system} {tags}" for system, tags in example.tags.items())
    kind = "paper-example" if "words" in words else "example"
    return table(f"{kind}/{item['language']}-{number}", rows, ("", *item["words"]), words)


def runs_table(frame: Frame) -> ReportTable | None:
    """How many runs and hours each part took."""
    rows: dict[str, list[Item]] = {}
    for part in dict.fromkeys(run.part for run in frame.runs):
        runs = [run for run in frame.runs if run.part == part]
        sets = ({r.seed for r in runs}, {str(r.facts.get("device", "–")) for r in runs}, {encoder_of(r) for r in runs})
        rows[part] = [len(runs), sum(run.seconds for run in runs) / 3600, *(listed(sorted(values)) for values in sets)]
    return table("runs", rows, digits=2)
