"""The report on the paper's experiments: HTML, Markdown, LaTeX tables and figures from a store or its export.

`build_report` defines the contents and their order. For a part without runs, the report names the command to run.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from zgul.corpora.data_folder import DataFolder
from zgul.errors import ZgulError
from zgul.files import atomic_write
from zgul.languages import GROUPS, find
from zgul.paper import numbers
from zgul.paper.export import TagAlphabet, add_sentences, analyse, open_store
from zgul.paper.frame import Frame, encoder_name
from zgul.paper.report import document, figures, tables
from zgul.paper.report.document import TABLES, Block, Figure, Page, ReportTable, group_title, listed, text
from zgul.paper.rows import ZERO_SHOT
from zgul.paper.store import FAILED
from zgul.progress import Report as Progress
from zgul.progress import Status, silent

FORMATS = ("html", "md", "latex", "figures")
RUN = "zgul experiment paper --data DIR --output DIR"
SIDE_BY_SIDE = "side-by-side.html"
SENTENCES = 250  # of each language on that page, from the start of its test file
Blocks = Sequence[Block | None]
Pages = dict[str, Page]  # file name -> page


def open_results(place: Path | str, data: Path | str | None = None, report: Progress = silent) -> Frame:
    """The results of a folder or of an export with their analyses. ``report`` is called with the progress."""
    store = open_store(place)
    if data is not None and store.gold_keys() and not store.has_sentences:
        add_sentences(store, DataFolder(data))
    known = store.analyses
    return Frame(store, analyse(store, data, report, sentences=store.has_sentences) if known is None else known)


def write_report(
    place: Path | str,
    output: Path | str,
    formats: Iterable[str] = FORMATS,
    data: Path | str | None = None,
    *,
    earlier: Mapping[str, Path | str] | None = None,
    label: str = "this report",
    report: Progress = silent,
) -> list[Path]:
    """Write the report of a folder of results, or of an export, into a folder. Returns the files written.

    ``earlier`` names results of earlier protocols to compare these with, which are then called ``label``.
    """
    chosen, output = tuple(formats), Path(output)
    if unknown := [name for name in chosen if name not in FORMATS]:
        raise ZgulError(f"there is no format {unknown[0]!r}; choose from {', '.join(FORMATS)}")
    if output.exists() and not output.is_dir():
        raise ZgulError(f"{output} is a file; the report needs a folder")
    if {"html", "figures"} & set(chosen):
        figures.matplotlib()  # if it is missing, say so before any work
    frame = open_results(place, data, report)
    before = {name: open_results(export) for name, export in (earlier or {}).items()}
    written = []
    for name, content in report_files(frame, build_report(frame, before, label), chosen):
        with atomic_write(output / name, "wb") as file:
            file.write(content)
        written.append(output / name)
        report(Status("writing", len(written), len(written)))
    return written


def report_files(frame: Frame, pages: Mapping[str, Page], formats: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Every file of a report: its name in the report's folder and its bytes."""
    draw = cache(figures.draw_files)  # each figure once, however many files show it
    blocks = {name: [block for blocks in page.sections.values() for block in blocks] for name, page in pages.items()}
    if "html" in formats:
        for name, page in pages.items():
            yield f"{name}.html", document.write_html(page, draw).encode()
        if compared := side_by_side(frame):
            yield SIDE_BY_SIDE, compared.encode()
    if "md" in formats:
        for name, page in pages.items():
            text = document.write_markdown(page, figures="figures" in formats)
            yield f"{name.replace('index', 'report')}.md", text.encode()
    if "latex" in formats:
        shown = [block for block in blocks["index"] if isinstance(block, ReportTable)]
        for table in shown:
            yield f"latex/{table.name}.tex", document.latex_table(table).encode()
        yield "latex/all.tex", document.latex_document(table.name for table in shown).encode()
    if "figures" in formats:
        for figure in (block for part in blocks.values() for block in part if isinstance(block, Figure)):
            for kind, content in draw(figure).items():
                yield f"figures/{figure.name}.{kind}", content


def build_report(frame: Frame, before: Mapping[str, Frame] | None = None, label: str = "this report") -> Pages:
    """The page "index" and one for each language. ``before`` holds results of earlier protocols by name."""
    languages = {f"language-{code}": (group, code) for group in frame.groups() for code in frame.languages(group)}
    links = {name: find(code).name for name, (_, code) in languages.items()}
    sections = dict(_main_sections(frame, {**(before or {}), label: frame}))
    pages = {"index": Page("The paper's experiments", sections, links)}
    return pages | {name: _language_page(frame, *place) for name, place in languages.items()}


def _main_sections(frame: Frame, frames: Mapping[str, Frame]) -> Iterator[tuple[str, list[Block]]]:
    """The sections of the main page. A section without results names the command to run."""
    tasks = ("pos", "ner")
    zero_shot = f"{RUN} --only zero-shot"
    verdicts = tables.verdict_table(frame)
    summary = (*tables.summary(frame), *tables.attention_summary(frame))
    answers = [tables.coverage(frame), summary, text("rule"), verdicts]
    tuning = [tables.tuning_table(frame, task) for task in tasks]
    limits = tables.tuning_limits(frame)
    em = [tables.em_choices_table(frame), tables.em_gains_table(frame), tables.em_tied_table(frame)]
    text_runs = [tables.unlabelled_table(frame), figures.unlabelled_curve(frame)]
    few_shot = [tables.few_shot_table(frame, group) for group in frame.groups("few-shot")]
    few_shot_curves = [figures.few_shot_groups(frame), figures.few_shot_by_language(frame)]
    data = [tables.data_groups_table(frame), tables.data_targets_table(frame)]
    parts: tuple[tuple[str, Blocks, str], ...] = (
        ("Ours and the paper's", [figures.overview(frame)], RUN),
        ("Do the paper's claims hold here?", answers if verdicts else [], RUN),
        ("How the results were made", [_as_list(head(frame))], RUN),
        ("Earlier protocols", tables.earlier_tables(frames), "zgul report DIR --earlier NAME=OLD --output DIR"),
        ("Departures from the paper", [_as_list(departures(frame))], RUN),
        ("Zero-shot", [tables.zero_shot_table(frame, task) for task in tasks], zero_shot),
        ("Tuning", [text("tuning-rule"), *limits, *tuning] if any(tuning) else [], f"{RUN} --only tuning"),
        ("Entropy minimisation", [*em, *(tables.em_forms_table(frame, task) for task in tasks)], zero_shot),
        ("Attention", [tables.correlation_table(frame), *figures.weight_maps(frame)], f"{zero_shot}/zgul"),
        ("Variants", [tables.variants_table(frame)], f"{RUN} --only variants"),
        ("Unlabelled target text", text_runs, f"{RUN} --only unlabelled"),
        ("Few-shot", [*few_shot_curves, *few_shot], f"{RUN} --only few-shot"),
        ("Encoders", [tables.encoders_table(frame, task) for task in tasks], f"{RUN} --encoder FOLDER"),
        ("Class-wise F1", [tables.classes_table(frame, task) for task in tasks], zero_shot),
        ("Parameters and time", [tables.cost_table(frame)], zero_shot),
        ("Relatedness", figures.similarity_maps(), RUN),
        ("Data", data, "zgul report DIR --data DATA --output DIR"),
        ("Examples", _examples(frame), "zgul experiment export --sentences DIR FILE"),
        ("Runs", _runs(frame), RUN),
    )
    for title, blocks, command in parts:
        yield title, [block for block in blocks if block] or [f"No results yet: `{command}` makes them."]


def _as_list(named: Mapping[str, str]) -> Block:
    return tuple(f"**{name[0].upper()}{name[1:]}**: {value}" for name, value in named.items())


def head(frame: Frame) -> dict[str, str]:
    """How the results were made, in a few lines."""
    meta = frame.store.meta
    facts = {name: listed(meta[name]) for name in TABLES["facts"] if meta.get(name)}
    facts["seeds"] = tables.seeds_of(frame, frame.groups()) or listed(sorted({run.seed for run in frame.runs})) or "–"
    facts["departures from the paper"] = f"**{'; '.join(departures(frame))}** (explained in the section of that name)"
    return facts


def departures(frame: Frame) -> dict[str, str]:
    """Every departure from the paper: what, and how."""
    named = {}
    protocol = frame.store.meta.get("protocol", {})
    if encoder := frame.store.meta.get("encoder"):
        embedded = encoder_name(encoder) == "embedded"
        named["encoder"] = text(f"departure {'embedded' if embedded else 'encoder'}", encoder=encoder)
    limits = [name for name in TABLES["limits"] if protocol.get(name)]
    limits = [name for name in limits if not name.startswith("text_") or frame.groups("unlabelled")]
    if cuts := [text(f"departure {name}", value=f"{protocol[name]:,}") for name in limits]:
        named["size"] = "; ".join(cuts) + "."
    if protocol:
        batch = protocol.get("batch_size", 32) * protocol.get("accumulate", 4)
        named["rates"] = text(f"departure rates {'' if frame.runs_of('tuning') else 'not '}tuned", batch=batch)
    steps, rates = (tuple(protocol.get(name) or ()) for name in ("em_steps", "em_rates"))
    paper = numbers.GRID["EM LR"]
    if steps not in ((), numbers.GRID["EM Steps"]) or rates not in ((), paper):
        words = {"steps": listed(steps), "rates": listed(rates), "paper": listed(paper)}
        named["EM's range"] = text("departure EM's range", **words)
    return named | {name: text(f"departure {name}") for name in TABLES["departures"]}


def _examples(frame: Frame) -> Blocks:
    blocks: list[Block | None] = []
    if frame.groups() and frame.store.has_sentences:
        blocks.append(f"The tags of any two systems on any sentence: [side by side]({SIDE_BY_SIDE}).")
    elif frame.groups() and frame.store.gold_keys():
        blocks.append(text("without-sentences"))
    if printed := frame.analyses.get("paper_examples"):
        blocks += [text("paper-examples-rule"), *map(tables.example_table, printed)]
    if disputed := frame.analyses.get("examples"):
        first = {item["language"]: item for item in reversed(disputed)}
        blocks += [text("examples-rule"), *map(tables.example_table, reversed(first.values()))]
    return blocks


def _runs(frame: Frame) -> Blocks:
    meta = frame.store.meta
    blocks: list[Block | None] = [tables.runs_table(frame)]
    if commands := dict.fromkeys(meta.get("commands", ())):
        blocks += ["Commands, in their order:", tuple(f"`{command}`" for command in commands)]
    if protocol := meta.get("protocol"):
        settings = listed(f"{name} {listed(value)}" for name, value in protocol.items() if value not in ((), [], ""))
        blocks.append(f"Protocol of the last command: {settings}.")
    if failed := frame.store.runs(status=FAILED):
        blocks += ["Runs that failed:", tuple(f"`{run.name}`: {run.error}" for run in failed)]
    if checksums := meta.get("checksums"):
        blocks += ["Checksums of what the runs read:", tuple(f"{name}: `{value}`" for name, value in checksums.items())]
    return blocks


def _language_page(frame: Frame, group: str, code: str) -> Page:
    """The page with all results of one target."""
    task = GROUPS[group].task
    examples = [item for item in frame.analyses.get("examples") or [] if item["language"] == code]
    contents: dict[str, Blocks] = {
        "Scores": [tables.language_rows_table(frame, group, code)],
        "Few-shot": [figures.few_shot_by_language(frame, code)],
        "Class-wise F1": [tables.classes_table(frame, task, code)],
        "Examples": [tables.example_table(item, number) for number, item in enumerate(examples, start=1)],
        "Data": [tables.data_targets_table(frame, code)],
    }
    sections = {title: [block for block in blocks if block] for title, blocks in contents.items() if any(blocks)}
    return Page(f"{find(code).name} ({code}), {group_title(group)}, {task.upper()}", sections, {"index": "All results"})


def side_by_side(frame: Frame) -> str | None:
    """A page that shows the tags of two systems on one sentence, or None if the sentences are not known."""
    alphabet, languages = TagAlphabet(), {}
    for group in frame.groups() if frame.store.has_sentences else ():
        seed = min(run.seed for run in frame.runs_of("zero-shot", group))
        for code in frame.languages(group):
            gold = frame.store.gold(group, code)
            entries = (entry for row in ZERO_SHOT for entry in frame.entries(row, group, language=code))
            tags = {entry.score.row: frame.tags(entry) for entry in entries if entry.run.seed == seed}
            words, right = ([getattr(s, side) for s in gold[:SENTENCES]] for side in ("words", "tags"))
            facts = {"name": f"{find(code).name}, seed {seed}", "words": words, "gold": alphabet.encode(right)}
            systems = {row: alphabet.encode(said[:SENTENCES]) for row, said in tags.items()}
            languages[code] = facts | {"systems": systems, "total": len(gold)}
    tags_of = {letter: tag for tag, letter in alphabet.items()}
    data = json.dumps({"languages": languages, "tags": tags_of}, ensure_ascii=False)
    body = Path(__file__).with_name("side_by_side.html").read_text(encoding="utf-8")
    safe = data.replace("<", "\\u003c")  # a word must not end the script
    return document.html_file("Two systems side by side", body.replace("DATA", safe)) if languages else None
