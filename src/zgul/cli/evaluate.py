"""``zgul evaluate``: F1 of a tagger on labelled text."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zgul.cli import app
from zgul.errors import ZgulError, ZgulWarning

if TYPE_CHECKING:
    from zgul.corpora.sentence import Sentence
    from zgul.ensemble.em import EMConfig
    from zgul.methods.tagger import Tagger


@app.command("evaluate")
def evaluate(
    lang: Annotated[str, typer.Option(help="Language of the text, by code or name.")],
    data: Annotated[
        Path, typer.Option(help="Labelled file (.conllu, .tsv, .txt, perhaps compressed), or a data folder.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="A tagger's folder, or a shipped one by name [default: the one that ships for language and task]."
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="pos or ner; without --model it is needed.")] = None,
    split: Annotated[str, typer.Option(help="Which file of a data folder.")] = "test",
    strategy: Annotated[str | None, typer.Option(help="Another way to infer: see zgul methods.")] = None,
    em: Annotated[bool, typer.Option("--em/--no-em", help="Minimise entropy, where the method does.")] = True,
    em_steps: Annotated[int | None, typer.Option(min=0, help="EM steps instead of the tagger's own.")] = None,
    em_lr: Annotated[float | None, typer.Option(min=0, help="EM learning rate instead of the tagger's own.")] = None,
    em_start: Annotated[
        str | None, typer.Option(help="scores, or probabilities as the authors' release starts (a softmax twice).")
    ] = None,
    em_positions: Annotated[
        str | None, typer.Option(help="words, or all positions as in the release, padding and specials included.")
    ] = None,
    adaptive: Annotated[
        bool | None,
        typer.Option(
            "--adaptive/--full-em",
            help="EM at a fraction of its work, as zgul tag does it, or as in the paper [default: adaptive for shipped "
            "taggers, unless anything else of EM is given].",
        ),
    ] = None,
    decode: Annotated[
        str | None, typer.Option(help="words or sequence (the best that IOB2 allows), instead of the tagger's own.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    precision: Annotated[str, typer.Option(help="float32, or bfloat16 as in zgul tag.")] = "float32",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, scores as percentages.")] = False,
) -> None:
    """Score a tagger on labelled text: seqeval F1 as the paper uses it, accuracy, every class.

    Examples:

    `zgul evaluate --task pos --lang fo --data test.conllu`

    `zgul evaluate --model out/germanic --lang fo --data DIR --no-em --json`

    `zgul evaluate --model all-pos --lang fo --data DIR`

    `zgul evaluate --model out/madx --lang fo --data DIR --strategy uniform`
    """
    from zgul.evaluation import format_scores, scores, to_json
    from zgul.languages import find

    language = find(lang).code
    if task not in (None, "pos", "ner"):
        raise ZgulError(f"there is no task {task!r}: choose pos or ner")
    if not data.exists():  # before the seconds that loading a tagger takes
        raise ZgulError(f"{data}: no such file")
    tagger, name = _tagger(model, language, task, device)
    tagger = tagger.using(precision=precision, decode=decode)
    chosen = tagger.method.check_strategy(strategy or tagger.strategy)
    told = {"steps": em_steps, "lr": em_lr, "start": em_start, "positions": em_positions}
    asked = {name: value for name, value in told.items() if value is not None}
    settings = _em_settings(tagger, language, chosen, em=em, asked=asked)
    if adaptive is None:
        adaptive = _is_shipped(model) and not asked
    if settings is not None and adaptive:
        from zgul.tagging.tagger import adapted

        settings = adapted(settings)
    sentences = _read(data, tagger.task, language, split)
    gold = [sentence.tags or [] for sentence in sentences]
    _warn_of_unknown(gold, tagger.labels)

    started = time.monotonic()
    from zgul.cli.progress import sentences_bar

    with sentences_bar("tagging", len(sentences)) as bar:
        predictions = tagger.predict(
            sentences, strategy=chosen, em=settings, on_batch=lambda count: bar.advance(bar.task_ids[0], count)
        )
    seconds = time.monotonic() - started
    result = scores(gold, [prediction.tags for prediction in predictions])
    if as_json:
        print(
            to_json(
                result,
                seconds=round(seconds, 3),
                model=name,
                method=tagger.method.name,
                strategy=chosen,
                lang=language,
                task=tagger.task,
                decode=tagger.decode,
                computed_in=tagger.precision,  # "precision" is a score
                em=asdict(settings) if settings else None,
            )
        )
        return
    from rich.console import Console

    how = f"EM: {_told(settings)}" if settings and settings.steps else "without EM"
    console = Console(highlight=False)
    console.print(
        format_scores(result, f"{tagger.method.title} ({chosen}), {tagger.task.upper()}, {find(lang)}: {name}")
    )
    console.print(f"{how}; {seconds:.1f} seconds, {result.words / max(seconds, 1e-9):,.0f} words a second")


def _tagger(model: str | None, language: str, task: str | None, device: str) -> tuple[Tagger, str]:
    """The tagger and what to call it."""
    if model is None:
        if task is None:
            raise ZgulError("say which task: --task pos or --task ner (or give --model DIR)")
        from zgul.tagging import shipped

        served = shipped.serving(language, task)
        if served.warning:
            warnings.warn(served.warning, ZgulWarning, stacklevel=2)
        return shipped.load(served.name).to(device), served.name
    from zgul.tagging.tagger import named

    tagger = named(model).to(device)
    if task is not None and task != tagger.task:
        raise ZgulError(f"{model} is a tagger for {tagger.task}, not for {task}")
    return tagger, model


def _told(settings: EMConfig) -> str:
    less = [f"the {settings.layers} upper layers"] if settings.layers else []
    less += [f"sentences of at least {settings.skip_below:g} nats a word"] if settings.skip_below else []
    less += [f"until the tags stay for {settings.patience}"] if settings.patience else []
    less += [f"from {settings.start}"] if settings.start != "scores" else []
    less += ["over all positions"] if settings.positions == "all" else []
    most = "at most " if settings.adaptive else ""
    return ", ".join([f"{most}{settings.steps} steps, rate {settings.lr:g}", *less])


def _is_shipped(model: str | None) -> bool:
    return model is None or not (Path(model) / "config.json").is_file()


def _em_settings(tagger: Tagger, language: str, strategy: str, *, em: bool, asked: dict[str, Any]) -> EMConfig | None:
    """The tagger's own settings for the language, but for what was asked otherwise; None where there is no EM."""
    own = tagger.em_for(language, strategy)
    if own is None:
        if asked:
            raise ZgulError(f"the strategy {strategy!r} of {tagger.method.title} has no EM; see zgul methods")
        return None
    if not em:
        return replace(own, steps=0)
    return replace(own, **asked)


def _read(data: Path, task: str, language: str, split: str) -> list[Sentence]:
    from zgul import corpora

    if data.is_dir():
        sentences = corpora.load(data, task, language, split)
    elif ".conllu" in data.suffixes:
        sentences = [sentence.to_sentence(task, language) for sentence in corpora.conllu.read(data)]
    else:
        sentences = list(corpora.columns.read(data, task, language))
    sentences = [sentence for sentence in sentences if sentence.words]
    if not sentences:
        raise ZgulError(f"{data} holds no sentences")
    tagged = [sentence for sentence in sentences if sentence.tags is not None]
    if not tagged:
        raise ZgulError(f"{data} has no {task.upper()} tags; only labelled text can be scored")
    if len(tagged) < len(sentences):
        message = f"{data}: {len(sentences) - len(tagged)} sentences without {task.upper()} tags are left out"
        warnings.warn(message, ZgulWarning, stacklevel=2)
    return tagged


def _warn_of_unknown(gold: list[list[str]], labels: list[str]) -> None:
    """Tags that the tagger cannot give are counted as its mistakes; say so."""
    known = {label.split("-", 1)[-1] for label in labels}
    unknown = Counter(kind for tags in gold for tag in tags if (kind := tag.split("-", 1)[-1]) not in known)
    if unknown:
        named = ", ".join(f"{kind} ({count} words)" for kind, count in unknown.most_common())
        warnings.warn(
            f"the file has tags that this tagger never gives, and they count as mistakes: {named}",
            ZgulWarning,
            stacklevel=2,
        )
