"""The report put together: what it holds and in which order. A part without runs names the command that makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zgul.languages import GROUPS, find
from zgul.paper.frame import Frame
from zgul.paper.report import analysis_tables as analysis
from zgul.paper.report import claims, figures
from zgul.paper.report import score_tables as scores
from zgul.paper.report.departures import commands_of, departures, head, protocol_text
from zgul.paper.report.document import Block, Page, ReportTable, Section, join
from zgul.paper.report.side_by_side import NAME, write_side_by_side
from zgul.paper.report.texts import group_title, text
from zgul.paper.store import FAILED

RUN = "zgul experiment paper --data DIR --output DIR"
PAIRS = (("pos", ("germanic", "slavic")), ("ner", ("african", "indo-aryan")))  # groups that share a table in print
Blocks = Sequence[Block | None]


@dataclass(frozen=True)
class Report:
    """The main page, a page for each language, the page of two systems, and the tables as they are printed."""

    main: Page
    pages: dict[str, Page]  # file name -> page
    printed: tuple[ReportTable, ...]  # for LaTeX: two groups side by side
    side_by_side: str | None  # HTML


def build_report(frame: Frame, before: Mapping[str, Frame] | None = None, label: str = "this report") -> Report:
    """Everything that the results allow. ``before`` holds the results of earlier protocols by name."""
    compared = write_side_by_side(frame)
    pages = {f"language-{code}": _language_page(frame, g, code) for g in frame.groups() for code in frame.languages(g)}
    links = [(page.title, name) for name, page in pages.items()]
    sections = _sections(frame, {**(before or {}), label: frame}, bool(compared))
    main = Page("The paper's experiments", head(frame), tuple(sections), tuple(links), opening=1)
    return Report(main, pages, _printed(frame, main), compared)


def _sections(frame: Frame, frames: Mapping[str, Frame], compared: bool) -> Iterable[Section]:
    """The sections of the main page: title, anchor, contents and the command that makes what is missing."""
    groups, tasks = frame.groups(), ("pos", "ner")
    zero_shot = f"{RUN} --only zero-shot"
    tuning = [analysis.tuning_table(frame, task) for task in tasks]
    em = [analysis.em_choices_table(frame), scores.em_gains_table(frame), scores.em_tied_table(frame)]
    correlations = analysis.correlation_table(frame)
    text_runs = [scores.unlabelled_table(frame), figures.unlabelled_curve(frame)]
    few_shot: list[Block | None] = [figures.few_shot_groups(frame), figures.few_shot_by_language(frame)]
    few_shot[1:1] = [scores.few_shot_table(frame, group) for group in frame.groups("few-shot")]
    data = [analysis.data_groups_table(frame), analysis.data_targets_table(frame)]
    explained = (_departures(frame),)
    for title, anchor, blocks, command in (
        ("Ours and the paper's", "overview", [figures.overview(frame)], RUN),
        ("Do the paper's claims hold here?", "claims", _claims(frame), RUN),
        ("Earlier protocols", "earlier", claims.earlier_tables(frames), "zgul report DIR --earlier NAME=OLD -o DIR"),
        ("Departures from the paper", "departures", explained, RUN),
        ("Zero-shot", "zero-shot", [scores.zero_shot_table(frame, group) for group in groups], zero_shot),
        ("Tuning", "tuning", [text("tuning-rule"), *tuning] if any(tuning) else [], f"{RUN} --only tuning"),
        ("Entropy minimisation", "em", [*em, *(scores.em_table(frame, group) for group in groups)], zero_shot),
        ("Attention", "attention", [correlations, *figures.weight_maps(frame)], f"{zero_shot}/zgul"),
        ("Unlabelled target text", "unlabelled", text_runs, f"{RUN} --only unlabelled"),
        ("Few-shot", "few-shot", few_shot, f"{RUN} --only few-shot"),
        ("Encoders", "encoders", [scores.encoders_table(frame, group) for group in groups], f"{RUN} --encoder FOLDER"),
        ("Class-wise F1", "classes", [analysis.classes_table(frame, task) for task in tasks], zero_shot),
        ("Parameters and time", "cost", [analysis.cost_table(frame)], zero_shot),
        ("Relatedness", "relatedness", figures.similarity_maps(), RUN),
        ("Data", "data", data, "zgul report DIR --data DATA --output DIR"),
        ("Examples", "examples", _examples(frame, compared), "zgul experiment export --sentences DIR FILE"),
        ("Runs", "runs", _runs(frame), RUN),
    ):
        yield Section(title, anchor, _present(blocks) or (f"No results yet: `{command}` makes them.",))


def _present(blocks: Blocks) -> tuple[Block, ...]:
    return tuple(block for block in blocks if block is not None)


def _claims(frame: Frame) -> Blocks:
    table = claims.verdict_table(frame)
    sentences = claims.summary(frame) + analysis.attention_summary(frame)
    return [tuple(sentences), text("rule"), table] if table else []


def _departures(frame: Frame) -> Block:
    return tuple(f"**{name}**: {sentence}" for name, sentence in departures(frame))


def _examples(frame: Frame, compared: bool) -> Blocks:
    blocks: list[Block | None] = []
    if compared:
        blocks.append(f"The tags of any two systems on any sentence: [side by side]({NAME}.html).")
    if printed := frame.analyses.get("paper_examples"):
        blocks += [text("paper-examples-rule"), *map(analysis.example_table, printed)]
    if disputed := frame.analyses.get("examples"):
        first = {item["language"]: item for item in reversed(disputed)}
        blocks += [text("examples-rule"), *map(analysis.example_table, reversed(first.values()))]
    return blocks


def _runs(frame: Frame) -> Blocks:
    blocks: list[Block | None] = [analysis.runs_table(frame)]
    commands = commands_of(frame)
    if len(commands) > 1:
        blocks += ["Commands, in their order:", tuple(f"`{command}`" for command in commands)]
    if failed := frame.store.runs(status=FAILED):
        blocks += ["Runs that failed:", tuple(f"`{run.name}`: {run.error}" for run in failed)]
    if protocol := protocol_text(frame):
        blocks.append(f"Protocol{' of the last command' if len(commands) > 1 else ''}: {protocol}.")
    return [*blocks, analysis.checksums_table(frame)]


def _language_page(frame: Frame, group: str, code: str) -> Page:
    """What there is on one target."""
    name, task = find(code).name, GROUPS[group].task
    examples = [item for item in frame.analyses.get("examples") or [] if item["language"] == code]
    contents: dict[str, Blocks] = {
        "Scores": [scores.language_rows_table(frame, group, code)],
        "Weights and relatedness": [analysis.language_weights_table(frame, group, code)],
        "Few-shot": [figures.few_shot_by_language(frame, code)],
        "Class-wise F1": [analysis.classes_table(frame, task, code)],
        "Examples": [analysis.example_table(item, number) for number, item in enumerate(examples, start=1)],
        "Data": [analysis.data_targets_table(frame, code)],
    }
    filled = {title: _present(blocks) for title, blocks in contents.items()}
    sections = (Section(title, title.split()[0].lower(), blocks) for title, blocks in filled.items() if blocks)
    facts = (("Language", f"{name} ({code})"), ("Group", group_title(group)), ("Task", task.upper()))
    return Page(name, facts, tuple(sections), (("All results", "index"),))


def _printed(frame: Frame, main: Page) -> tuple[ReportTable, ...]:
    """The tables of the main page, with the groups of a task side by side as the paper prints them."""
    single = {block.name: block for block in main.blocks() if isinstance(block, ReportTable)}
    joined = []
    for task, names in PAIRS:
        pair = [(group_title(g), single.pop(f"zero-shot-{g}")) for g in names if f"zero-shot-{g}" in single]
        if pair:
            titles = " and ".join(title for title, _ in pair)
            caption = text("printed", groups=titles, task=task.upper(), alpha=claims.ALPHA)
            joined.append(join(f"zero-shot-{task}", caption, pair))
    return (*joined, *single.values())
