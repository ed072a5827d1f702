"""``zgul tag``: tag text, files or folders."""

import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.text import Text

from zgul.cli import new_app
from zgul.cli.option_signature import with_options
from zgul.cli.printing import ProgressBars
from zgul.cli.products import faster_products
from zgul.cli.shared_options import (
    EM,
    Adapted,
    Adaptive,
    Device,
    ModelName,
    Precision,
    StripMarks,
    TaskOrBoth,
    machine_option,
    with_em_options,
)
from zgul.cluster.corpus import tag_corpus
from zgul.cluster.ray_cluster import CLUSTER_PANEL, ClusterSettings
from zgul.cluster.shards import CorpusJob
from zgul.corpora.sentence import TASKS, TaskChoice
from zgul.errors import ZgulError, ZgulWarning
from zgul.languages import find
from zgul.progress import Status
from zgul.tagging.delta import is_delta, load_delta
from zgul.tagging.display import LEGEND, legend, render, shown_marks
from zgul.tagging.documents import FORMATS
from zgul.tagging.langid import SURE_ENOUGH, guess
from zgul.tagging.loading import load
from zgul.tagging.parallel import tag_files_at_once
from zgul.tagging.reading import Input, TextSource, find_sources, sample_text
from zgul.tagging.tag_files import PANEL, TEXT_SUFFIXES, ChooseTagger, FileSettings, begin, tag_file, tag_stream
from zgul.tagging.text_tagger import TextTagger

app = new_app()
LITTLE = 15  # letters; in a shorter text, any language can look like another
TERMINAL = "terminal"  # the format for people
WEIGHTS = "Add the share of each source language per word."
FORMATS_HELP = "How to write the tags [default: terminal on a screen, else conllu]."
SHARD_WORDS = "Words in an output file; larger inputs become a folder of files."
ShardWords = Annotated[int, typer.Option(min=1, rich_help_panel=CLUSTER_PANEL, help=SHARD_WORDS)]
JOBS = "Files that are tagged at once, each by a process of its own, if --output is a folder."
INPUTS = "Text, files (also .xz, .gz, .bz2, .zst), folders, or - for standard input."


@app.command()
@with_options(FileSettings, skip=["format"], into="settings")
@with_options(ClusterSettings, into="cluster")
@with_em_options("steps", "lr")
def tag(
    settings: dict[str, Any],
    cluster: dict[str, Any],
    changes: dict[str, Any],
    given: Annotated[list[str] | None, typer.Argument(metavar="TEXT|FILE|FOLDER|-", help=INPUTS)] = None,
    lang: Annotated[str, typer.Option("--lang", "-l", help="Language by code or name, or auto.")] = "",
    task: TaskOrBoth = None,
    form: Annotated[str, typer.Option("--format", "-f", metavar="terminal|conllu|tsv|json", help=FORMATS_HELP)] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="File or, for several files, folder to write.")] = "-",
    weights: Annotated[bool, typer.Option("--weights", help=WEIGHTS, rich_help_panel=PANEL)] = False,
    model: ModelName = None,
    adapted: Adapted = True,
    strip_marks: StripMarks = None,
    em: EM = None,
    adaptive: Adaptive = None,
    device: Device = "cpu",
    precision: Precision = "auto",
    jobs: Annotated[int, machine_option(min=1, help=JOBS)] = 1,
    shard_words: ShardWords = CorpusJob.shard_words,
) -> None:
    """Tag text: parts of speech, named entities, or both."""
    if not lang and model is not None and is_delta(model):
        lang = load_delta(model).language
    if not lang:
        raise ZgulError("Say which language the text is in: --lang fo, --lang Faroese, or --lang auto to guess.")
    streams = output in ("-", "/dev/stdout")
    form = form or (TERMINAL if streams and sys.stdout.isatty() else "conllu")
    if form not in (TERMINAL, *FORMATS):
        raise ZgulError(f"There is no format {form!r}. Choose {TERMINAL}, {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
    if form == TERMINAL and (not streams or "probabilities" in settings):
        raise ZgulError("--output and --probabilities need a format for files: --format conllu, tsv or json.")
    if settings.keys() & {"resume", "force"} and streams:
        raise ZgulError("--resume and --force are for files: give --output FILE.")
    files = FileSettings.from_dict(settings | ({"format": form} if form != TERMINAL else {}))
    language = None if lang.lower() == "auto" else find(lang).code
    if not given and sys.stdin.isatty():
        print("zgul: reading from the keyboard; end with Ctrl-D", file=sys.stderr)
    choices: dict[str, Any] = {"model": model, "adapted": adapted, "em": em, "adaptive": adaptive, "weights": weights}
    choices |= {"strip_marks": strip_marks, "device": device, "precision": precision}
    choices |= {f"em_{name}": value for name, value in changes.items()}
    where = ClusterSettings.from_dict(cluster)
    if where.engine == "ray":
        choices["precision"] = "float32" if precision == "auto" else precision  # its machines may differ
        job = CorpusJob(language, cast(TaskChoice | None, task), tuple(choices.items()), files, shard_words)
        _tag_on_cluster(given or [], output, job, where)
        return
    if cluster.keys() & {"ray_address", "workers"}:
        raise ZgulError("--ray-address and --workers are for clusters: add --engine ray.")
    choose = _Choose(language, cast(TaskChoice | None, task), choices)
    sources = find_sources(given or [], leave_out=None if streams else Path(output))
    if form == TERMINAL:
        _show(choose, sources, files)
    elif streams:
        with _progress(hidden=sys.stdout.isatty()) as report:
            tag_stream(choose, sources, sys.stdout.buffer, files, report=report)
    else:
        _write(choose, sources, output, files, jobs)


@dataclass(frozen=True, eq=False)
class _Choose:
    """The tagger for an input. Each is loaded once. With ``--jobs``, processes receive a copy."""

    language: str | None
    task: TaskChoice | None
    choices: dict[str, Any]
    loaded: dict[str, TextTagger] = field(default_factory=dict)

    def __call__(self, opened: Input) -> TextTagger:
        code = self.language or _guess(sample_text(opened))
        if code not in self.loaded:
            faster_products()  # also with --jobs, where each process loads for itself
            self.loaded[code] = load(code, self.task, **self.choices)
        return self.loaded[code]


def _write(choose: ChooseTagger, sources: list[TextSource], output: str, settings: FileSettings, jobs: int) -> None:
    """Write one file, or several into a folder, and report what existed already."""
    if len(sources) == 1 and not output.endswith("/") and not Path(output).is_dir():
        with _progress() as report:
            result = tag_file(choose, sources[0], output, settings, report=report)
        if result.held:
            rest = "" if result.held == result.sentences else "; the rest was added"
            print(f"zgul: {output} already had {_count(result.held, 'sentence')}{rest}", file=sys.stderr)
        return
    if not output.endswith("/") and Path(output).suffix in (*TEXT_SUFFIXES, ".json") and not Path(output).is_dir():
        problem = f"{output} is the name of a file, but {len(sources)} files are tagged into a folder."
        raise ZgulError(f"{problem} Name a folder, such as tagged/, or write one stream: zgul tag … > {output}")
    try:
        with _progress() as report:
            results = tag_files_at_once(choose, sources, output, settings, report=report, jobs=jobs)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(str(stop) or "run the same command again to tag the remaining files") from stop
    failed = sum(bool(result.problem) for result in results)
    kept = sum(0 < result.held == result.sentences for result in results)
    already = f", {kept} complete already" if kept else ""
    print(f"zgul: {output}: {_count(len(results) - failed - kept, 'file')} tagged{already}", file=sys.stderr)
    if failed:
        raise ZgulError(f"{failed} of {len(results)} files were not tagged.")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _tag_on_cluster(given: list[str], output: str, job: CorpusJob, where: ClusterSettings) -> None:
    """Tag files on a Ray cluster, and report what was done."""
    if output in ("-", "/dev/stdout"):
        raise ZgulError("--engine ray writes a folder of files: give --output FOLDER.")
    if dict(job.choices)["device"] == "auto":
        raise ZgulError("Say --device cpu or --device cuda: the machines of a cluster may differ.")
    try:
        with _progress() as report:
            result = tag_corpus(given, output, job, where, report=report)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt("run the same command again to tag what is missing") from stop
    states = [one.state for one in result.manifest.inputs.values()]
    rate = f"{result.words:,} words in {result.seconds:.0f} seconds"
    held = sum(len(one.shards) for one in result.manifest.inputs.values()) - result.tagged
    print(f"zgul: {output}: {result.tagged} shards tagged ({rate}), {held} complete already", file=sys.stderr)
    if result.failed:
        raise ZgulError(f"{len(result.failed)} of {len(states)} inputs were not tagged; manifest.json says why.")


def _progress(hidden: bool = False) -> ProgressBars:
    """A bar on standard error. It is shown while the tagger is still loading, too."""
    bars = ProgressBars(transient=True, hidden=hidden)
    bars(Status("tagging", 0, 0))
    return bars


def _guess(text: str) -> str:
    """Guess the language of a text, and print how sure the guess is."""
    letters = sum(map(str.isalpha, text))
    best, second, *_ = guess(text)
    sure = f"{best.probability:.0%}" if best.probability < 0.99 else "over 99%"
    looks = f"the text looks like {find(best.code)}, {sure} sure"
    other = f"next comes {find(second.code)}, {second.probability:.0%}"
    if best.probability < SURE_ENOUGH or letters < LITTLE:
        little = f", but {letters} letters are too few to be certain" if letters < LITTLE else ""
        doubt = f"{looks}{little}; {other}. If this is wrong, name the language with --lang."
        warnings.warn(doubt, ZgulWarning, stacklevel=2)
    else:
        print(f"zgul: {looks} ({other})", file=sys.stderr)
    return best.code


def _show(choose: ChooseTagger, sources: list[TextSource], settings: FileSettings) -> None:
    """Print for people: a heading, words over tags, and a legend of the tags."""
    console = Console(highlight=False, soft_wrap=True)
    marks: set[str] = set()
    for source in sources:
        with source.open(settings.input) as opened:
            with _progress():
                tagger, windows = begin(choose, opened)
            for task in tagger.taggers:
                console.print(Text(tagger.language.name, style="bold").append(f" · {TASKS[task]}", style="not bold"))
                console.print(Text(f"by {tagger.describe(task)}", style="dim"), soft_wrap=False)
            console.print()
            for sentence in tagger.tag_sentences(sentence for window in windows for sentence in window):
                console.print(render(sentence, console.width), end="\n\n")
                marks |= shown_marks(sentence)
            if "ner" in tagger.taggers and not marks & LEGEND["ner"].keys():
                console.print("No names were found.\n")
    console.print(legend(marks), soft_wrap=False)
