"""``zgul compare``: is one system better than another, or is it chance?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zgul.cli import app
from zgul.errors import ZgulError

if TYPE_CHECKING:
    from zgul.experiments.store import Store, StoredRun

Tags = list[list[str]]
ALPHA = 0.005  # the paper's level


@dataclass(frozen=True)
class System:
    """What a system said: tags by language, and the right ones."""

    name: str
    tags: dict[str, Tags]
    gold: dict[str, Tags]


@app.command("compare")
def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="DIR:RUN[:ROW], or a tagged file.")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="What to compare it with, in the same form.")],
    gold: Annotated[Path | None, typer.Option(help="File with the right tags; needed for files.")] = None,
    task: Annotated[str, typer.Option(help="pos or ner: which tags of a file.")] = "pos",
    samples: Annotated[int, typer.Option(min=1, help="Samples of the bootstrap.")] = 1000,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Of the intervals.")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two systems on the same sentences: F1 with a bootstrap interval of the difference, and McNemar's test.

    A system is a run of an experiment, `DIR:RUN[:ROW]`: DIR is the folder of `zgul experiment paper`, RUN the first
    characters of a run's hash or its whole name, ROW the paper's row where a run has several ("ZGUL w/o EM"). Or it
    is a file that was tagged (.conllu, .tsv, .txt, perhaps compressed), with the right tags in --gold.

    Examples:

    `zgul compare out:3fa9c1 out:77b0e2:CPG`

    `zgul compare "out:3fa9c1:ZGUL" "out:3fa9c1:ZGUL w/o EM"`

    `zgul compare ours.conllu theirs.conllu --gold test.conllu --task pos`
    """
    from zgul.evaluation import bootstrap_f1, mcnemar, scores

    systems = [_system(place, gold, task) for place in (first, second)]
    languages = [code for code in systems[0].tags if code in systems[1].tags]
    if not languages:
        raise ZgulError("cannot compare: the two have no language in common")
    one, other = systems
    for code in languages:
        if one.gold[code] != other.gold[code]:
            raise ZgulError(f"cannot compare: the two were scored on different test sentences of {code}")
    lines = []
    for title, codes in [
        *((code, [code]) for code in languages),
        *([("all", languages)] if len(languages) > 1 else []),
    ]:
        truth, a, b = ([s for code in codes for s in side[code]] for side in (one.gold, one.tags, other.tags))
        difference = bootstrap_f1(truth, a, b, samples, confidence)
        test = mcnemar(truth, a, b)
        lines.append(
            {
                "language": title,
                "words": sum(map(len, truth)),
                "first_f1": scores(truth, a).f1,
                "second_f1": scores(truth, b).f1,
                "difference": difference.f1,
                "low": difference.low,
                "high": difference.high,
                "only_first_right": test.only_first,
                "only_second_right": test.only_second,
                "p": test.p,
            }
        )
    if as_json:
        import json

        told = {"first": one.name, "second": other.name, "confidence": confidence, "samples": samples, "rows": lines}
        print(json.dumps(told, ensure_ascii=False, indent=1))
        return
    _show(one.name, other.name, lines, confidence, samples)


def _show(first: str, second: str, lines: list[dict[str, Any]], confidence: float, samples: int) -> None:
    from rich.console import Console
    from rich.table import Table

    heads = ["", "words", "first F1", "second F1", "difference", f"{confidence:.0%} interval"]
    heads += ["only first right", "only second right", "McNemar p"]
    table = Table(box=None, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number == 0 else "right", no_wrap=number in (0, 4, 5))
    for line in lines:
        p = "< 0.0001" if line["p"] < 0.0001 else f"{line['p']:.4f}"
        table.add_row(
            line["language"], f"{line['words']:,}", f"{line['first_f1']:.1f}", f"{line['second_f1']:.1f}",
            f"{line['difference']:+.1f}", f"{line['low']:+.1f} to {line['high']:+.1f}",
            f"{line['only_first_right']:,}", f"{line['only_second_right']:,}", p,
        )  # fmt: skip
    console = Console(highlight=False)
    console.print(f"first:  {first}\nsecond: {second}", markup=False, soft_wrap=True)
    console.print(table)
    last = lines[-1]
    sure = last["low"] > 0 or last["high"] < 0
    better = "the first is better" if last["difference"] > 0 else "the second is better"
    verdict = better if sure else "no difference in F1 beyond chance"
    console.print(f"On the whole: {verdict} (interval by {samples:,} bootstrap samples of sentences).", markup=False)
    if last["p"] < ALPHA and not sure:
        more = "first" if last["only_first_right"] > last["only_second_right"] else "second"
        told = f"By words (McNemar, p < {ALPHA}) the {more} is right more often: F1 counts chunks, not words."
        console.print(told, markup=False)


def _system(place: str, gold: Path | None, task: str) -> System:
    """A run of a store, or a file."""
    if task not in ("pos", "ner"):
        raise ZgulError(f"there is no task {task!r}: choose pos or ner")
    if Path(place).is_file():
        if gold is None:
            raise ZgulError(f"{place} is a file: say where the right tags are, --gold FILE")
        own, right = _read(Path(place), task), _read(gold, task)
        if [words for words, _ in own] != [words for words, _ in right]:
            raise ZgulError(f"cannot compare: {place} and {gold} do not hold the same words in the same sentences")
        return System(place, {"text": [tags for _, tags in own]}, {"text": [tags for _, tags in right]})
    folder, rest = _split(place)
    from zgul.experiments.store import Store

    store = Store(folder)
    name, _, row = rest.partition(":")
    return _stored(store, _run(store, name), row)


def _split(place: str) -> tuple[Path, str]:
    """The folder and what follows; a folder's own name may have a colon."""
    borders = [index for index, character in enumerate(place) if character == ":"]
    for border in reversed(borders):
        if Path(place[:border]).is_dir():
            return Path(place[:border]), place[border + 1 :]
    if Path(place).is_dir():
        raise ZgulError(f"{place} is a folder: say which run of it, {place}:RUN[:ROW]")
    raise ZgulError(
        f"{place}: no such file, and no folder before a colon; systems are DIR:RUN[:ROW] or tagged files "
        "(an export has no tags to compare)"
    )


def _run(store: Store, name: str) -> StoredRun:
    done = store.runs(status="done")
    found = [run for run in done if name and run.hash.startswith(name)] or [run for run in done if run.name == name]
    if len(found) == 1:
        return found[0]
    few = "\n".join(f"  {run.hash[:10]}  {run.name}" for run in (found or done)[:20])
    what = f"{len(found)} runs begin with {name!r}" if found else f"{store.folder} has no finished run {name!r}"
    raise ZgulError(f"{what}; there are:\n{few}" if few else f"{what}: none is finished yet")


def _stored(store: Store, run: StoredRun, row: str) -> System:
    from zgul.languages import GROUPS

    scores = store.scores(run=run.hash)
    rows = list(dict.fromkeys(score.row for score in scores))
    if row and row not in rows:
        raise ZgulError(f"run {run.hash[:10]} has no row {row!r}; it has: {' | '.join(rows)}")
    if not row and len(rows) != 1:
        place = f"{store.folder}:{run.hash[:10]}:ROW"
        raise ZgulError(
            f"run {run.hash[:10]} has several rows, choose one with {place}: {' | '.join(rows) or 'none yet'}"
        )
    row = row or rows[0]
    scored = {score.language for score in scores if score.row == row}
    languages = [code for code in GROUPS[run.group].targets if code in scored]
    return System(
        f"{row}, {run.name} ({run.hash[:10]})",
        {code: store.predictions(run.hash, row, code) for code in languages},
        {code: [sentence.tags or [] for sentence in store.gold(run.group, code)] for code in languages},
    )


def _read(path: Path, task: str) -> list[tuple[list[str], list[str]]]:
    """Words and tags of each sentence."""
    from zgul import corpora

    if ".conllu" in path.suffixes:
        sentences = [sentence.to_sentence(task) for sentence in corpora.conllu.read(path)]
    else:
        sentences = list(corpora.columns.read(path, task))
    found = [(sentence.words, sentence.tags) for sentence in sentences if sentence.words]
    tagged = [(words, tags) for words, tags in found if tags is not None]
    if not tagged or len(tagged) < len(found):
        raise ZgulError(f"{path} has sentences without {task.upper()} tags; only tagged files can be compared")
    return tagged
