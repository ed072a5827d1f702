"""``zgul tag``: text in, tags out."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zgul.cli import app
from zgul.errors import ZgulError, ZgulWarning

if TYPE_CHECKING:
    from rich.console import Console

    from zgul.tagging.reading import Input, Item
    from zgul.tagging.tagger import TextTagger

GUESSED_FROM = 400  # words, at most
SURE_ENOUGH = 0.8
LITTLE = 15  # letters: in less text any language can look like another


@app.command("tag")
def tag(
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT | FILE | -]", help="Text, a file (also .xz, .gz), or - for standard input."),
    ] = None,
    lang: Annotated[str, typer.Option("--lang", "-l", help="Language by code or name, or auto.")] = "",
    task: Annotated[
        str | None, typer.Option(help="pos, ner or both [default: what the language's group was made for].")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--input", help="text, lines (a sentence a line), tokens (words between spaces), conllu, columns or auto."
        ),
    ] = "auto",
    form: Annotated[
        str | None,
        typer.Option(
            "--format", "-f", help="terminal, conllu, tsv, json [default: terminal on a screen, else conllu]."
        ),
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Add the share of each source language per word.")] = False,
    em: Annotated[
        bool | None, typer.Option("--em/--no-em", help="Entropy minimisation [default: as the tagger was tuned].")
    ] = None,
    em_steps: Annotated[int | None, typer.Option(min=0, help="Its steps: more are slower.")] = None,
    em_lr: Annotated[float | None, typer.Option(min=0.0, help="Its learning rate.")] = None,
    adaptive: Annotated[
        bool | None,
        typer.Option(
            "--adaptive/--full-em",
            help="At a fraction of its work, or as in the paper [default: adaptive, unless steps or rate are given].",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Another tagger: a shipped one by name, such as slavic-pos, or a folder.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with --output where it was broken off.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    precision: Annotated[
        str, typer.Option(help="float32, or bfloat16: faster on CPUs and GPUs that have it, nearly the same tags.")
    ] = "float32",
) -> None:
    """Tag text: parts of speech, named entities, or both.

    Examples:

        zgul tag --lang fo "Hetta er ein lítil roynd."

        zgul tag --lang fo book.txt > book.conllu

        cat news.txt | zgul tag --lang luo --task ner --format json

        zgul tag --lang hsb corpus.txt.xz --output corpus.conllu --resume

        zgul tag --lang auto --weights "Der Hund het de Chatz gseh."
    """
    if not lang:
        raise ZgulError("say which language the text is in: --lang fo, --lang Faroese, or --lang auto to guess")
    output = None if str(output) in ("-", "/dev/stdout") else output
    form = _check_format(form, output, resume)
    # the language first: a typo should not cost the seconds that reading and loading take
    language = None if lang.lower() == "auto" else _find(lang)
    from zgul.tagging import reading

    if not given and sys.stdin.isatty():
        print("zgul: reading from the keyboard; end with Ctrl-D", file=sys.stderr)
    source = reading.open_input(given or [])
    if output is not None and source.is_file(output):
        raise ZgulError(f"{output} is the input; writing to it would destroy it: choose another --output")
    items = reading.read(source, kind)
    if language is None:
        language, items = _guess(items)
    items = _not_empty(items, source)
    with _loading():
        from zgul.tagging import load

        tagger = load(
            language,
            task,
            model=model,
            em=em,
            em_steps=em_steps,
            em_lr=em_lr,
            adaptive=adaptive,
            weights=weights,
            device=device,
            precision=precision,
        )
    if form == "terminal":
        _show(tagger, items)
    else:
        _write(tagger, items, source, form, output, resume)


def _check_format(form: str | None, output: Path | None, resume: bool) -> str:
    from zgul.tagging.writing import FORMATS

    if form is None:
        form = "terminal" if output is None and sys.stdout.isatty() else "conllu"
    if form not in (*FORMATS, "terminal"):
        raise ZgulError(f"unknown format {form!r}: choose one of terminal, {', '.join(FORMATS)}")
    if form == "terminal" and output:
        raise ZgulError("--output needs a format for files: conllu, tsv or json")
    if resume and not output:
        raise ZgulError("--resume needs the file to go on with: --output FILE")
    if output and output.suffix in (".xz", ".gz", ".bz2", ".zst"):
        raise ZgulError(f"{output}: output is not compressed, so that it can be resumed; compress it afterwards")
    if output and output.is_dir():
        raise ZgulError(f"{output} is a folder; a file is needed here")
    return form


def _find(lang: str) -> str:
    from zgul.languages import find

    return find(lang).code


def _guess(items: Iterator[Item]) -> tuple[str, Iterator[Item]]:
    """The language of the first sentences, said on stderr with how sure it is."""
    from zgul.languages import find
    from zgul.tagging.langid import guess

    first: list[Item] = []
    words = 0
    for item in items:
        first.append(item)
        words += len(item)
        if words >= GUESSED_FROM:
            break
    text = " ".join(word for item in first for word in item.sentence.words)
    letters = sum(map(str.isalpha, text))
    best, second, *_ = guess(text)
    sure = f"{best.probability:.0%}" if best.probability < 0.99 else "over 99%"
    found = f"the text looks like {find(best.code)}, {sure} sure"
    other = f"next comes {find(second.code)}, {second.probability:.0%}"
    if best.probability < SURE_ENOUGH or letters < LITTLE:
        little = f", but {letters} letters are little to go by" if letters < LITTLE else ""
        doubt = f"{found}{little}; {other}. If this is wrong, name the language with --lang."
        warnings.warn(doubt, ZgulWarning, stacklevel=2)
    else:
        print(f"zgul: {found} ({other})", file=sys.stderr)
    return best.code, chain(first, items)


def _not_empty(items: Iterator[Item], source: Input) -> Iterator[Item]:
    first = next(items, None)
    if first is None:
        raise ZgulError(f"{source.name} holds no words; there is nothing to tag")
    return chain([first], items)


@contextmanager
def _loading() -> Iterator[None]:
    """A sign of life on a screen: loading takes a few seconds."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status("Loading the tagger…"):
        yield


def _show(tagger: TextTagger, items: Iterator[Item]) -> None:
    """For people: what was done, words over tags, what the tags mean."""
    from rich.console import Console

    from zgul.tagging import terminal

    console = Console(highlight=False, soft_wrap=True)
    _show_header(console, tagger)
    seen: set[str] = set()
    for sentence in tagger.tag_sentences(item.sentence for item in items):
        console.print(terminal.render(sentence, console.width))
        console.print()
        seen |= terminal.shown(sentence)
    if "ner" in tagger.taggers and not seen & set(terminal.ENTITIES):
        console.print("No names were found.\n")
    console.print(terminal.legend(seen), soft_wrap=False)


def _show_header(console: Console, tagger: TextTagger) -> None:
    from rich.text import Text

    from zgul.tagging.shipped import TASKS

    for task in tagger.taggers:
        line = Text(tagger.language.name, style="bold").append(f" · {TASKS[task]}", style="not bold")
        console.print(line)
        console.print(Text(f"by {tagger.describe(task)}", style="dim"), soft_wrap=False)
    console.print()


def _write(
    tagger: TextTagger, items: Iterator[Item], source: Input, form: str, output: Path | None, resume: bool
) -> None:
    """For programs: block by block, each window flushed when it is done."""
    from zgul.tagging import writing
    from zgul.tagging.tagger import windows

    def render(window: list[Item], number: int) -> list[str]:
        tagged = tagger.tag_window([item.sentence for item in window], begun=number > 1)
        block = writing.FORMATS[form]
        return [block(*pair, n) for n, pair in enumerate(zip(tagged, window, strict=True), start=number)]

    parts = windows(items, size=len, most=tagger.window)
    done = 0
    with ExitStack() as stack:
        if output is None:
            sink = sys.stdout.buffer
        else:
            size = 0
            if resume and output.is_file():
                written = writing.resume(output, form, parts, render)
                done, size, parts = written.sentences, written.size, written.rest
                print(f"zgul: {output} holds {done:,} sentences already; going on after them", file=sys.stderr)
            stack.enter_context(_writing(output))
            sink = stack.enter_context(output.open("r+b" if size else "wb"))
            if size:
                sink.truncate(size)
                sink.seek(size)
        report = stack.enter_context(_progress(source))
        for window in parts:
            sink.write("".join(render(window, done + 1)).encode("utf-8"))
            sink.flush()
            done += len(window)
            report(done)


@contextmanager
def _writing(output: Path) -> Iterator[None]:
    """What ends the writing of a file early, as an error that names it, or with what to do next."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"{output} is not complete; the same command with --resume goes on with it") from stop
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ZgulError(f"{output}: cannot be written ({error.strerror})") from error


@contextmanager
def _progress(source: Input) -> Iterator[Callable[[int], None]]:
    """Sentences done and, where the input's size is known, time left; on a screen only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]:,} sentences")]
    columns += [TimeElapsedColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task("Tagging", total=source.size, done=0)

        def report(done: int) -> None:
            progress.update(bar, completed=source.position, done=done)

        yield report
