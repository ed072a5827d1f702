"""Tables of F1: methods as rows, languages as columns, the paper's number beside each of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from zgul.evaluation import MeanStd, mean_std
from zgul.languages import GROUPS, TARGETS, find
from zgul.paper import numbers
from zgul.paper.frame import Entry, Frame, average, averages, f1
from zgul.paper.numbers import AVERAGE, PaperTable
from zgul.paper.report.claims import ALPHA, find_claim
from zgul.paper.report.document import Cell, Column, ReportTable, TableRow, bold_best_of_columns, cell, table
from zgul.paper.report.texts import group_title, listed, text
from zgul.paper.rows import TARGET_TEXT, ZERO_SHOT, ZGUL, find_row

TIED, ON_DEV = "ZGUL, EM tied by layer", "ZGUL, EM on target dev"
RELEASE, CONTROL = "ZGUL, EM from probabilities", "ZGUL, EM T=1 lr=0 from probabilities"
EM_ROWS = {  # row -> its title in the tables of EM
    "ZGUL w/o EM": "without EM",
    ZGUL: "EM, token-wise (the method)",
    TIED: "EM, tied by layer",
    CONTROL: "control: T = 1, lr = 0 from probabilities",
    RELEASE: "EM from probabilities (the release)",
    ON_DEV: "EM tuned on target dev (uses target labels)",
    "MADX^multi-EMEA": "MADX^multi-EMEA",
    "MADX^multi-EMEA, EM on target dev": "MADX^multi-EMEA tuned on target dev (uses target labels)",
}
EM_GAINS = {
    "token-wise EM": (ZGUL, "ZGUL w/o EM"),
    "tied by layer": (TIED, "ZGUL w/o EM"),
    "release's EM": (RELEASE, "ZGUL w/o EM"),
    "of it: flattening": (CONTROL, "ZGUL w/o EM"),
    "of it: entropy": (RELEASE, CONTROL),
    "tuned on target dev − tuned on a source": (ON_DEV, ZGUL),
}
Published = Callable[[str], float | None]  # a language, or the average -> the paper's number


def from_paper(printed: PaperTable, row: str, *, average: bool = True) -> Published:
    """The numbers of a row. The paper's average is left out where it is over other languages than ours."""
    return lambda code: printed.get(row, code) if average or code != AVERAGE else None


def f1_table(
    name: str,
    caption: str,
    languages: Sequence[str],
    rows: Iterable[tuple[str, Sequence[Entry], Published]],
    rules: Sequence[str] = (),
) -> ReportTable | None:
    """F1 of each language and their average: title, scores and the paper's numbers of each row that has scores."""
    made: list[TableRow] = []
    for title, entries, published in rows:
        if entries:
            own = (f1(entry for entry in entries if entry.score.language == code) for code in languages)
            cells = (cell(value, published(code)) for code, value in zip(languages, own, strict=True))
            whole = cell(average(entries, languages), published(AVERAGE))
            made.append(TableRow(title, (*cells, whole), rule=bool(made) and title in rules))
    columns = (*(Column(code.capitalize()) for code in languages), Column("Avg", rule=True))
    return table(name, caption, "Method", columns, bold_best_of_columns(made))


def zero_shot_table(frame: Frame, group: str) -> ReportTable | None:
    """One group of the paper's main tables. A star marks a ZGUL that is better than the closest baseline."""
    languages = frame.languages(group)
    complete = tuple(languages) == GROUPS[group].targets
    titles = [row for row in ZERO_SHOT if row in frame.rows(group)]
    firsts = {find_row(row).kind: row for row in reversed(titles)}
    test, star = find_claim(frame, group), ""
    if test is not None and test.holds:
        star = f"; * better than the closest baseline ({test.row}) by McNemar's test, p < {ALPHA} in every seed"
    seeds = sorted({run.seed for run in frame.runs_of("zero-shot", group)})
    seeds_text = f"{'seed' if len(seeds) == 1 else 'seeds'} {listed(seeds)}"
    task = GROUPS[group].task.upper()
    made = f1_table(
        f"zero-shot-{group}",
        text("zero-shot", group=group_title(group), task=task, seeds=seeds_text, star=star),
        languages,
        (
            (title, frame.entries(group, title), from_paper(numbers.ZERO_SHOT[group], title, average=complete))
            for title in titles
        ),
        [firsts.get("multi-source baseline", ""), firsts.get("ablation", "")],
    )
    return replace(made, rows=tuple(_finish(row, group, languages, bool(star)) for row in made.rows)) if made else None


def _finish(row: TableRow, group: str, languages: Sequence[str], star: bool) -> TableRow:
    """Add the paper's deviations and the star."""
    spreads = (numbers.DEVIATIONS[group].get(row.title, code) for code in (*languages, AVERAGE))
    pairs = zip(row.cells, spreads, strict=True)
    cells = [replace(item, paper_std=spread if item.paper is not None else None) for item, spread in pairs]
    if star and row.title == ZGUL:
        cells[-1] = replace(cells[-1], mark="*")
    return replace(row, cells=tuple(cells))


# --- entropy minimisation


def published_em(group: str, row: str) -> Published:
    """The paper's numbers for a row of the tables of EM."""
    if row.endswith("EM on target dev"):
        return from_paper(numbers.TARGET_DEV[group], row.split(",")[0])
    if row == TIED:
        return from_paper(numbers.EM_TIED, "tied", average=False)
    return from_paper(numbers.ZERO_SHOT[group], row)


def em_table(frame: Frame, group: str) -> ReportTable | None:
    """What EM does in each of its forms."""
    there = frame.rows(group)
    if not any(row.startswith("ZGUL, EM") for row in there):
        return None
    shown = [row for row in EM_ROWS if row != "MADX^multi-EMEA" or f"{row}, EM on target dev" in there]
    return f1_table(
        f"em-{group}",
        text("em", group=group_title(group)),
        frame.languages(group),
        ((EM_ROWS[row], frame.entries(group, row), published_em(group, row)) for row in shown),
        [EM_ROWS[ON_DEV], "MADX^multi-EMEA"],
    )


def em_tied_table(frame: Frame) -> ReportTable | None:
    """The paper's table of EM tied by layer against token-wise EM, over all languages."""
    languages = [code for group in frame.groups() for code in frame.languages(group)]
    rows = []
    for row, title, printed in ((TIED, "tied by layer", "tied"), (ZGUL, "token-wise", ZGUL)):
        entries = [entry for group in frame.groups() for entry in frame.entries(group, row)]
        rows.append((title, entries, from_paper(numbers.EM_TIED, printed, average=set(languages) == set(TARGETS))))
    return f1_table("em-tied", text("em-tied"), languages, rows) if rows[0][1] else None


def row_difference(frame: Frame, group: str, row: str, other: str) -> MeanStd | None:
    """Difference of the average F1 of two rows, seed by seed, over the languages that both have."""
    scored = [{entry.score.language for entry in frame.entries(group, title)} for title in (row, other)]
    languages = [code for code in frame.languages(group) if all(code in codes for codes in scored)]
    first, second = (averages(frame.entries(group, title), languages) for title in (row, other))
    values = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    return mean_std(values) if values else None


def em_gains_table(frame: Frame) -> ReportTable | None:
    """How much of EM's gain is entropy and how much is flattening."""
    gains = {g: [row_difference(frame, g, *pair) for pair in EM_GAINS.values()] for g in frame.groups()}
    rows = [TableRow(group_title(group), tuple(map(cell, row))) for group, row in gains.items() if any(row[1:])]
    return table("em-gains", text("em-gains"), "Group", EM_GAINS, rows)


# --- text and examples of the target


def share_of(entry: Entry) -> float:
    """The share of the unlabelled text that a run has read."""
    return float(entry.run.extra.get("share", 1.0))


def unlabelled_entries(frame: Frame, row: str, share: float = 1.0) -> list[Entry]:
    """A row's scores over all groups with this share of the text."""
    groups = frame.groups("unlabelled")
    return [e for group in groups for e in frame.entries(group, row, "unlabelled") if share_of(e) == share]


def unlabelled_table(frame: Frame) -> ReportTable | None:
    """The paper's table of the methods that read unlabelled text of the target."""
    by_row = {row: unlabelled_entries(frame, row) for row in TARGET_TEXT}
    there = {entry.score.language for entries in by_row.values() for entry in entries}
    languages = [code for code in TARGETS if code in there]
    same = there == set(numbers.UNLABELLED.values["SFT++"]) - {AVERAGE}
    sizes = frame.analyses.get("text") or {}
    note = "" if same else ". Avg is over the languages shown; the paper's is over its twelve and is not shown"
    if left := [code for code in TARGETS if code in sizes and code not in there]:
        note += f". Not run, though there is text: {listed(left)}"
    rows = ((row, by_row[row], from_paper(numbers.UNLABELLED, row, average=same)) for row in TARGET_TEXT)
    made = f1_table("unlabelled", text("unlabelled", note=note), languages, rows, ["ZGUL++ w/o target adapter"])
    if not made or not sizes:
        return made
    cells = [Cell(paper=numbers.UNLABELLED.get(numbers.TEXT_SIZE, code), digits=0) for code in languages]
    own = (sum(sizes[code].values()) / 1000 if code in sizes else None for code in languages)
    cells = [replace(item, value=value) for item, value in zip(cells, own, strict=True)]
    return replace(made, rows=(*made.rows, TableRow("Text, thousand lines", (*cells, Cell()), rule=True)))


def few_shot_sizes(frame: Frame, group: str) -> list[int]:
    return sorted({0, *(int(run.extra["examples"]) for run in frame.runs_of("few-shot", group))})


def few_shot_entries(frame: Frame, group: str, row: str, size: int) -> list[Entry]:
    """Scores after training on with so many examples. Zero examples are the zero-shot scores of the same languages."""
    if size:
        return frame.entries(group, row, "few-shot", examples=size)
    codes = frame.languages(group, "few-shot")
    return [entry for entry in frame.entries(group, row) if entry.score.language in codes]


def few_shot_languages(frame: Frame, group: str) -> list[str]:
    """The languages that have every size. A mean over changing languages would bend the curve."""
    wanted = [(row, size) for row in frame.rows(group, "few-shot") for size in few_shot_sizes(frame, group)[1:]]
    return [
        code
        for code in frame.languages(group, "few-shot")
        if all(frame.entries(group, row, "few-shot", language=code, examples=size) for row, size in wanted)
    ]


def few_shot_table(frame: Frame, group: str) -> ReportTable | None:
    """Averages of a group by number of examples."""
    sizes, languages = few_shot_sizes(frame, group), few_shot_languages(frame, group)
    rows = []
    for row in frame.rows(group, "few-shot"):
        values = (average(few_shot_entries(frame, group, row, size), languages) for size in sizes)
        rows.append(TableRow(row, tuple(map(cell, values))))
    names = listed(code.capitalize() for code in languages)
    caption = text("few-shot", group=group_title(group), languages=names)
    return table(f"few-shot-{group}", caption, "Examples", map(str, sizes), bold_best_of_columns(rows))


# --- encoders and languages


def encoders_table(frame: Frame, group: str) -> ReportTable | None:
    """The same methods on every encoder of the store, by language, beside the paper's numbers on XLM-R."""
    printed = numbers.XLMR.get(group, PaperTable(""))
    if len(frame.encoders) < 2 and not printed.values:
        return None
    rows = (
        (f"{row}, {name}", frame.entries(group, row, encoder=name), from_paper(printed, row))
        for row in numbers.XLMR["germanic"].values
        for name in frame.encoders
    )
    note = ", there trained without Bengali" if group == "indo-aryan" else ""
    caption = text("encoders", group=group_title(group), note=note)
    return f1_table(f"encoders-{group}", caption, frame.languages(group), rows)


def language_rows_table(frame: Frame, group: str, language: str) -> ReportTable | None:
    """Every row of every part that scored a language."""
    rows: list[TableRow] = []
    for part in ("zero-shot", "unlabelled"):
        first = len(rows)
        for row in frame.rows(group, part):
            entries = [e for e in frame.entries(group, row, part, language=language) if share_of(e) == 1.0]
            if not entries:
                continue
            published = published_em(group, row) if part == "zero-shot" else from_paper(numbers.UNLABELLED, row)
            means = [
                mean_std([getattr(e.score, name) for e in entries]) for name in ("precision", "recall", "accuracy")
            ]
            settings = sorted({_em_settings(entry.score.em) for entry in entries if entry.score.em})
            cells = [Cell(text=part), cell(f1(entries), published(language)), *map(cell, means)]
            title = f"{row} (uses target labels)" if row.endswith("on target dev") else row
            rows.append(TableRow(title, (*cells, Cell(text="; ".join(settings))), rule=0 < first == len(rows)))
    columns = ("Part", "F1", "Precision", "Recall", "Accuracy", "EM settings")
    return table(f"rows-{language}", text("rows", language=find(language).name), "Method", columns, rows)


def _em_settings(em: dict[str, Any]) -> str:
    return f"T = {em['steps']}, lr = {em['lr']:g}" if {"steps", "lr"} <= set(em) else str(em)
