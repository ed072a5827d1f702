"""One table of every method with one seed, for two groups: the first look at whether all of it trains and scores."""

from __future__ import annotations

from zgul.errors import ZgulError
from zgul.evaluation.compare import mean_std
from zgul.experiments.report import markdown, paper
from zgul.experiments.report.build import command_list, header
from zgul.experiments.report.document import Cell, Document, Items, Prose, Row, Section, Table, join
from zgul.experiments.report.frame import ZERO_SHOT_ROWS, Entry, Frame, averages
from zgul.experiments.report.tables import (
    UNLABELLED_ROWS,
    embolden,
    group_title,
    language_columns,
    unlabelled_entries,
)
from zgul.experiments.store import Results

GROUPS = ("germanic", "african")
# Average F1 of plain fine-tuning of the embedded encoder, measured apart from this code (three seeds, last checkpoint)
FLOOR = {"germanic": 47.6, "african": 57.1}
WITHIN = 1.5
TIED = "ZGUL, EM tied by layer"
TEXT = "With unlabelled text of the target"


def first_results(results: Results) -> str:
    """The page as Markdown."""
    frame = Frame(results)
    there = [group for group in GROUPS if group in frame.groups("zero-shot")]
    if not there:
        raise ZgulError(
            "no zero-shot results of the Germanic or African group yet: zgul experiment paper --only zero-shot"
        )
    seed = min(run.seed for group in there for run in frame.runs_of("zero-shot", group))
    told = (
        f"F1 with one seed ({seed}), the best of a column in bold, the paper's number (mBERT, three seeds) in brackets"
    )
    table = join("first", told, [(group_title(group), _table(frame, group, seed)) for group in there])
    blocks = (Prose(_adapters(results)), table, Items(tuple(_floor(frame, group, seed) for group in there)))
    sections = [Section("Zero-shot", "first", blocks), _unlabelled(frame, there, seed)]
    commands = command_list(results)
    if commands:
        sections.append(Section("Runs", "runs", tuple(commands)))
    return markdown.write(Document("First results", header(results, frame, [seed]), tuple(sections)))


def _unlabelled(frame: Frame, groups: list[str], seed: int) -> Section:
    """The methods that read unlabelled text of the target, on the languages where they were run."""
    parts = []
    for group in groups:
        entries = {
            row: {e.score.language: e.score.f1 for e in unlabelled_entries(frame, row) if _is_of(e, group, seed)}
            for row in UNLABELLED_ROWS
        }
        languages = [code for code in frame.languages("zero-shot", group) if any(code in f1 for f1 in entries.values())]
        rows = [Row(row, tuple(Cell(f1.get(code)) for code in languages)) for row, f1 in entries.items() if f1]
        if rows:
            columns = language_columns(languages)[: len(languages)]
            parts.append((group_title(group), Table(f"text-{group}", "", columns, embolden(rows), "Method")))
    if not parts:
        return Section(TEXT, "text", (Prose("Not run: `zgul experiment paper --only unlabelled`."),))
    told = f"F1 with one seed ({seed}) and all unlabelled text that the target has, the best of a column in bold"
    return Section(TEXT, "text", (join("text", told, parts),))


def _is_of(entry: Entry, group: str, seed: int) -> bool:
    return entry.run.group == group and entry.run.seed == seed


def _table(frame: Frame, group: str, seed: int) -> Table:
    languages = frame.languages("zero-shot", group)
    rows = []
    for title in (*ZERO_SHOT_ROWS, TIED):
        entries = [entry for entry in frame.entries("zero-shot", group, title) if entry.run.seed == seed]
        scores = {entry.score.language: entry.score.f1 for entry in entries}
        if scores:
            whole = mean_std(list(scores.values())).mean if set(languages) == set(scores) else None
            values = {**scores, paper.AVERAGE: whole}
            codes = (*languages, paper.AVERAGE)
            cells = (Cell(values.get(code), paper=paper.ZERO_SHOT[group].get(title, code)) for code in codes)
            rows.append(Row(title, tuple(cells)))
    return Table(f"first-{group}", "", language_columns(languages), embolden(rows), "Method")


def _adapters(results: Results) -> str:
    name = results.meta.get("adapters", "shipped")
    kind = {"shipped": "the ones that come with the package", "new": "untrained ones, which change nothing"}
    return f"Language adapters: {kind.get(str(name), f'`{name}`')}."


def _floor(frame: Frame, group: str, seed: int) -> str:
    """SFT-M against what plain fine-tuning is known to reach."""
    languages = frame.languages("zero-shot", group)
    entries = [entry for entry in frame.entries("zero-shot", group, "SFT-M") if entry.run.seed == seed]
    found = list(averages(entries, languages).values())
    floor = f"{FLOOR[group]:.1f} measured before for plain fine-tuning of this encoder (three seeds)"
    if not found:
        return f"{group_title(group)}: SFT-M has not been scored; to compare with {floor}."
    far = found[0] - FLOOR[group]
    verdict = "within" if far >= -WITHIN else "not within"
    sign = f"{far:+.1f}".replace("-", "−")
    return f"{group_title(group)}: SFT-M {found[0]:.1f} against {floor}: {sign}, {verdict} {WITHIN} of it or better."
