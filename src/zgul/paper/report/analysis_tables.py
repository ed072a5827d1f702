"""Tables beside F1: tuning, EM's choices, attention against relatedness, classes, cost, data, examples, runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np

from zgul.evaluation import MeanStd, mean_std
from zgul.languages import GROUPS, find, similarity
from zgul.languages.relatedness import Kind
from zgul.paper import numbers
from zgul.paper.frame import Entry, Frame, average, encoder_of
from zgul.paper.report.document import Cell, Column, ReportTable, TableRow, bold_best, cell, table, text_cells
from zgul.paper.report.texts import group_title, listed, text
from zgul.paper.rows import COMPARED, TRAINED
from zgul.paper.tuning import TunedMethod, choose_settings

WEIGHTS = {"lang2vec": "Lang2Vec", "fusion": "Fusion", "emea": "MADX^multi-EMEA"}
RANDOM_START = "random start"  # the variant whose attention networks start at random
EM_PAIRS = {  # a row that uses EM -> the same model without
    "ZGUL": "ZGUL w/o EM",
    "ZGUL, EM tied by layer": "ZGUL w/o EM",
    "MADX^multi-EMEA": "MADX^multi-Uniform",
}
STRONG, WEAK = 0.5, 0.2  # correlations from which weights follow relatedness, and weakly
COST_ROWS = {"SFT-M": "sft-m", "CPG": "cpg", "ZGUL": "zgul", "MADX^multi": "madx-multi"}


# --- tuning and EM


def tuning_table(frame: Frame, task: str) -> ReportTable | None:
    """Dev F1 of each rate that was tried for the methods of a task, the chosen one marked."""
    tuned = [tried for tried in choose_settings(frame.runs_of("tuning")) if tried.task == task]
    rates = sorted({rate for tried in tuned for rate, _ in tried.dev_f1})
    rows: list[TableRow] = []
    for tried in sorted(tuned, key=lambda tried: TRAINED.index(tried.method)):
        reductions = dict.fromkeys(reduction for _, reduction in tried.dev_f1)
        for number, reduction in enumerate(sorted(reductions, key=lambda value: value or 0)):
            title = tried.method if reduction is None else f"{tried.method}, reduction {reduction:g}"
            cells = tuple(_tried(tried, rate, reduction) for rate in rates)
            rows.append(TableRow(title, cells, rule=bool(rows) and number == 0))
    groups = dict.fromkeys(group_title(group) for tried in tuned for group in tried.groups)
    sft, adapters, reduced = (
        listed(map(_rate, numbers.GRID[name])) for name in ("SFT Learning Rate", "Learning Rate", "Reduction Factor")
    )
    caption = text(
        "tuning", task=task.upper(), groups=" and ".join(groups), sft=sft, adapters=adapters, reductions=reduced
    )
    return table(f"tuning-{task}", caption, "Method", map(_rate, rates), rows)


def _rate(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"{value:.0e}".replace("e-0", "e-")


def _tried(tried: TunedMethod, rate: float, reduction: float | None) -> Cell:
    chosen = tried.chosen == (rate, reduction)
    return Cell(tried.dev_f1.get((rate, reduction)), bold=chosen, mark=" ←" if chosen else "", digits=2)


def em_choices_table(frame: Frame) -> ReportTable | None:
    """How often EM was chosen, and what it gained on the dev sets that chose it and on the targets."""
    entries = [e for g in frame.groups() for row in (*EM_PAIRS, *EM_PAIRS.values()) for e in frame.entries(g, row)]
    f1 = {(e.run.hash, e.score.language, e.score.row): e.score.f1 for e in entries}
    rows = []
    for row, without in EM_PAIRS.items():
        choices = []  # whether EM was chosen, its gain on dev, its gain on the target
        for run in frame.runs_of("zero-shot"):
            for code, em in run.facts.get("em", {}).get(row, {}).items():
                if "f1_without_em" in em and (run.hash, code, row) in f1:
                    gain = f1[run.hash, code, row] - f1[run.hash, code, without]
                    choices.append((em["steps"] > 0, em["f1"] - em["f1_without_em"], gain))
        if choices:
            chosen = [choice for choice in choices if choice[0]]
            ties = sum(dev == 0 for _, dev, _ in chosen)
            counts = (Cell(count, digits=0) for count in (len(choices), len(chosen), ties))
            gains = (_mean_of(used, place) for place in (1, 2) for used in (chosen, choices))
            rows.append(TableRow(row, (*counts, *gains)))
    heads = [Column(name) for name in ("Choices", "EM chosen (T > 0)", "of them ties")]
    for where in ("Gain on dev", "Gain on the target"):
        heads += [Column("when chosen", where, rule=True), Column("overall", where)]
    return table("em-choices", text("em-choices"), "Row", heads, rows)


def _mean_of(choices: Sequence[tuple[float, ...]], place: int) -> Cell:
    return Cell(mean(choice[place] for choice in choices) if choices else None, digits=2)


# --- attention


def weights(
    frame: Frame, kind: str, group: str, *, untrained: bool = False, variant: str = ""
) -> list[dict[str, dict[str, float]]]:
    """Mean weights by target and source, for each seed that has them."""
    runs = frame.runs_of("variants" if variant else "zero-shot", group)
    name = "weights_untrained" if untrained else "weights"
    tables = [run.facts.get(name, {}).get(kind) for run in runs if run.extra.get("variant", "") == variant]
    return [
        {code: by_target[code] for code in GROUPS[group].targets if code in by_target}
        for by_target in tables
        if by_target
    ]


def correlation(by_target: Mapping[str, Mapping[str, float]]) -> float | None:
    """Pearson's correlation of weight and average similarity over all pairs of target and source."""
    pairs = [
        (weight, similarity(target, source)) for target, row in by_target.items() for source, weight in row.items()
    ]
    first, second = np.array(pairs).T if len(pairs) > 2 else np.zeros((2, 2))
    if first.std() < 1e-9 or second.std() < 1e-9:
        return None  # all weights are equal: no correlation is defined
    return float(np.corrcoef(first, second)[0, 1])


def group_correlation(frame: Frame, kind: str, group: str, **which: Any) -> MeanStd | None:
    """The correlation in a group over seeds; ``which`` as in `weights`."""
    values = [value for value in map(correlation, weights(frame, kind, group, **which)) if value is not None]
    return mean_std(values) if values else None


def correlation_table(frame: Frame) -> ReportTable | None:
    """The paper's table of correlations, the untrained value beside the trained one, and random starts below."""
    rows: list[TableRow] = []
    for variant in ("", RANDOM_START):
        first = len(rows)
        for group in GROUPS:
            cells: list[Cell] = []
            for kind in WEIGHTS:
                trained = group_correlation(frame, kind, group, variant=variant)
                start = group_correlation(frame, kind, group, variant=variant, untrained=True)
                published = numbers.CORRELATION.get(group, kind) if trained else None
                cells += [cell(trained, published, 2), cell(start, digits=2)]
            if any(item.value is not None for item in cells):
                title = ", ".join(filter(None, (group_title(group), variant)))
                rows.append(TableRow(title, tuple(cells), rule=0 < first == len(rows)))
    heads = [Column(when, title, when == "trained") for title in WEIGHTS.values() for when in ("trained", "start")]
    return table("correlation", text("correlation"), "Group", heads, rows)


def attention_summary(frame: Frame) -> list[str]:
    """Do the weights follow relatedness? Random starts decide, if there are runs with them."""
    variants = {run.extra.get("variant") for run in frame.runs_of("variants")}
    variant = RANDOM_START if RANDOM_START in variants else ""
    answers = []
    for kind, network in list(WEIGHTS.items())[:2]:
        values = {group: group_correlation(frame, kind, group, variant=variant) for group in GROUPS}
        judged = {group_title(group): follows(value.mean) for group, value in values.items() if value}
        groups = {answer: listed(g for g in judged if judged[g] == answer) for answer in sorted({*judged.values()})}
        answers += [f"{network}: " + "; ".join(map("{0[0]} in {0[1]}".format, groups.items()))] if groups else []
    source = "from random starts" if variant else "from starts at typological likeness"
    answer = text("attention", source=source, answers=". ".join(answers), strong=STRONG, weak=WEAK)
    return [f"**Attention follows relatedness**: {answer}"] if answers else []


def follows(correlation: float) -> str:
    """In a word, whether weights with this correlation follow relatedness."""
    seen = round(correlation, 2)
    return "yes" if seen >= STRONG else "weakly" if seen >= WEAK else "in reverse" if seen <= -WEAK else "no"


def language_weights_table(frame: Frame, group: str, language: str) -> ReportTable | None:
    """The weights of the sources on one target, and how related they are."""
    rows = []
    sources = GROUPS[group].sources
    for kind, title in WEIGHTS.items():
        tables = [by_target[language] for by_target in weights(frame, kind, group) if language in by_target]
        if tables:
            spread = (mean_std([by_target.get(source, 0.0) for by_target in tables]) for source in sources)
            rows.append(TableRow(f"{title} weight", tuple(cell(value, digits=2) for value in spread)))
    measures: tuple[Kind, ...] = ("average", "genetic", "syntactic") if rows else ()
    for measure in measures:
        values = tuple(Cell(similarity(language, source, measure), digits=2) for source in sources)
        rows.append(TableRow(f"{measure} similarity", values, rule=measure == "average"))
    caption = text("weights", language=find(language).name)
    return table(f"weights-{language}", caption, "", (find(source).name for source in sources), rows)


# --- classes and cost


def classes_table(frame: Frame, task: str, language: str | None = None) -> ReportTable | None:
    """F1 of each class, averaged over the languages that have it, or of one language."""
    groups = [name for name in frame.groups() if GROUPS[name].task == task]
    by_row = {row: [e for g in groups for e in frame.entries(g, row, language=language)] for row in COMPARED}
    by_row = {row: entries for row, entries in by_row.items() if entries}
    first = next(iter(by_row.values()), [])
    support: dict[str, dict[str, float]] = {}  # class -> language -> gold chunks
    for entry in first:
        for name, values in entry.score.per_class.items():
            if values["support"]:
                support.setdefault(name, {})[entry.score.language] = values["support"]
    printed = numbers.CLASSES[task] if language is None else numbers.PaperTable("")
    rows = []
    for name in sorted(support, key=lambda name: ([*numbers.CLASSES[task].values, name].index(name), name)):
        cells = [cell(_class_f1(by_row[row], name, support[name]), printed.get(name, row)) for row in by_row]
        total = Cell(sum(support[name].values()), paper=printed.get(name, "support"), digits=0)
        rows.append(TableRow(name, (*bold_best(cells), total)))
    if rows:
        languages = list(dict.fromkeys(entry.score.language for entry in first))
        cells = [cell(average(entries, languages), printed.get("Micro-F1", row)) for row, entries in by_row.items()]
        total = Cell(sum(row.cells[-1].value or 0 for row in rows), paper=printed.get("Micro-F1", "support"), digits=0)
        rows.append(TableRow("Micro-F1", (*bold_best(cells), total), rule=True))
    where = find(language).name if language else "averaged over all languages that have the class"
    beside = "mean ± standard deviation over seeds" if language else text("beside").replace("column", "row")
    caption = text("classes", task=task.upper(), where=where, beside=beside)
    return table(f"classes-{language or task}", caption, "Class", (*by_row, Column("Support", rule=True)), rows)


def _class_f1(entries: Sequence[Entry], name: str, languages: Mapping[str, float]) -> MeanStd | None:
    by_seed: dict[int, list[float]] = {}
    for entry in entries:
        if entry.score.language in languages:
            by_seed.setdefault(entry.run.seed, []).append(entry.score.per_class.get(name, {}).get("f1", 0.0))
    return mean_std([mean(values) for values in by_seed.values()]) if by_seed else None


def cost_table(frame: Frame) -> ReportTable | None:
    """Trainable parameters and seconds of an epoch."""
    groups, rows = frame.groups(), []
    for title, method in COST_ROWS.items():
        facts = {group: [run.facts for run in frame.runs_of("zero-shot", group, method)] for group in groups}
        sizes = [fact["trainable"] / 1e6 for of_group in facts.values() for fact in of_group if "trainable" in fact]
        if sizes:
            cells = [Cell(mean(sizes), paper=numbers.COST.get(title, "parameters"))]
            for group, of_group in facts.items():
                times = [fact["seconds_per_epoch"] for fact in of_group if "seconds_per_epoch" in fact]
                minutes = numbers.COST.get(title, group)
                cells.append(Cell(mean(times) if times else None, paper=minutes and 60 * minutes))
            rows.append(TableRow(title, tuple(cells)))
    heads = [Column(group_title(group), "Seconds of an epoch", rule=group == groups[0]) for group in groups]
    return table("cost", text("cost"), "Method", ("Parameters, M", *heads), rows)


# --- data, examples and runs


def data_groups_table(frame: Frame) -> ReportTable | None:
    """The training data that there is."""
    limit = frame.store.meta.get("protocol", {}).get("limit")
    rows = []
    for row in (frame.analyses.get("statistics") or {}).get("groups", ()):
        missing = f" (without {listed(row['missing'])})" if row["missing"] else ""
        texts = text_cells(row["task"].upper(), listed(row["sources"]) + missing)
        sizes = (Cell(row[split], paper=row[f"paper_{split}"], digits=0) for split in ("train", "dev"))
        rows.append(TableRow(group_title(row["group"]), (*texts, *sizes, *text_cells(" ".join(row["test_tags"])))))
    heads = ("Task", "Sources", "Train sentences", "Dev sentences", "Tags of the test sets")
    note = f". The runs read at most {limit:,} of each source" if limit else ""
    return table("data-groups", text("data-groups", note=note), "Group", heads, rows)


def data_targets_table(frame: Frame, language: str | None = None) -> ReportTable | None:
    """The test files, or one of them."""
    rows = []
    for row in (frame.analyses.get("statistics") or {}).get("targets", ()):
        if language in (None, row["language"]):
            printed = "" if row["script"] == row["paper_script"] else f" (paper: {row['paper_script']})"
            size = Cell(row["sentences"], paper=row["paper_sentences"], digits=0)
            overlap = Cell(row["overlap"], paper=row["paper_overlap"])
            cells = (*text_cells(group_title(row["group"]), row["script"] + printed), size, overlap)
            rows.append(TableRow(f"{find(row['language']).name} ({row['language']})", cells))
    heads = ("Group", "Script", "Test sentences", "Overlap, %")
    return table(f"data-{language or 'targets'}", text("data-targets"), "Language", heads, rows)


def example_table(item: dict[str, Any], number: int = 0) -> ReportTable | None:
    """A sentence with its gold tags and what each method says. One of the paper's has its tags there, too."""
    printed = next((example for example in numbers.EXAMPLES if example.label == item.get("label")), None)
    rows = [TableRow("gold", text_cells(*item["gold"]))]
    for row in COMPARED:
        pairs = zip(item["tags"][row], item["gold"], strict=True)
        rows.append(TableRow(row, tuple(Cell(text=tag, bold=tag != gold) for tag, gold in pairs)))
    note = ""
    if printed is not None:
        said = (f"{system} {' '.join(tags)}" for system, tags in printed.tags.items())
        note = f". In the paper “{' '.join(printed.words)}” has the tags: {'; '.join(said)}"
    where = f"{find(item['language']).name}, test sentence {item['sentence']}, seed {item['seed']}"
    name = f"{'example' if printed is None else 'paper-example'}-{item['language']}-{number}"
    return table(name, text("example", where=where, note=note), "", item["words"], rows, sortable=False)


def runs_table(frame: Frame) -> ReportTable | None:
    """How many runs and hours each part took."""
    rows = []
    for part in dict.fromkeys(run.part for run in frame.runs):
        runs = [run for run in frame.runs if run.part == part]
        devices = {str(run.facts["device"]) for run in runs if "device" in run.facts}
        sets = ({run.seed for run in runs}, devices or {"–"}, set(map(encoder_of, runs)))
        hours = Cell(sum(run.seconds for run in runs) / 3600, digits=2)
        cells = (Cell(len(runs), digits=0), hours, *text_cells(*(listed(sorted(values)) for values in sets)))
        rows.append(TableRow(part, cells))
    return table("runs", text("runs"), "Part", ("Runs", "Hours, summed", "Seeds", "Device", "Encoder"), rows)


def checksums_table(frame: Frame) -> ReportTable | None:
    checksums = frame.store.meta.get("checksums") or {}
    rows = (TableRow(name, text_cells(value)) for name, value in sorted(checksums.items()) if value)
    return table("checksums", text("checksums"), "File", ("sha256",), rows)
