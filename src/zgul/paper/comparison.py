"""Compare two systems, to see whether their difference is more than chance. A system is a run or a tagged file."""

from dataclasses import dataclass
from pathlib import Path

from zgul.corpora import Sentence, read_labelled
from zgul.corpora.sentence import check_task
from zgul.errors import ZgulError
from zgul.evaluation import bootstrap_f1, mcnemar, scores
from zgul.languages import GROUPS
from zgul.paper.export import open_store
from zgul.paper.numbers import ALPHA
from zgul.paper.store import DONE, Store

TagsByLanguage = dict[str, list[list[str]]]  # language -> tags of each sentence
System = tuple[str, TagsByLanguage, TagsByLanguage]  # name, predictions and gold tags


@dataclass(frozen=True)
class LanguageComparison:
    """Two systems on one language, or on all words together ("all")."""

    language: str
    words: int
    first_f1: float
    second_f1: float
    difference: float  # of F1, in points
    low: float  # the bootstrap interval of the difference
    high: float
    only_first_right: int  # words that only the first system tags correctly
    only_second_right: int
    p: float  # McNemar's test


@dataclass(frozen=True)
class RunComparison:
    """Two systems on every language that both have tagged; the last row is over all words."""

    first: str
    second: str
    confidence: float
    samples: int
    rows: list[LanguageComparison]

    @property
    def verdict(self) -> str:
        """The result of the last row, in words."""
        whole = self.rows[-1]
        if whole.low > 0 or whole.high < 0:
            return f"On the whole: the {'first' if whole.difference > 0 else 'second'} is better."
        verdict = "On the whole: no difference in F1 beyond chance."
        if whole.p >= ALPHA:
            return verdict
        more = "first" if whole.only_first_right > whole.only_second_right else "second"
        return f"{verdict} By words (McNemar, p < {ALPHA}) the {more} is right more often: F1 counts chunks, not words."


def compare_runs(
    one: str, two: str, gold: Path | str | None = None, task: str = "pos", samples: int = 1000, confidence: float = 0.95
) -> RunComparison:
    """Compare two systems on the same sentences.

    A system is ``RESULTS:RUN[:ROW]`` or a tagged file. RESULTS is a folder of results or an export, RUN the first
    characters of a run's hash or its whole name, and ROW a title of `zgul.paper.rows` if the run has several. Files
    need the ``gold`` file and the ``task``.
    """
    (first, own, truth), (second, theirs, same) = (_find_system(place, gold, task) for place in (one, two))
    languages = [code for code in own if code in theirs]
    if not languages:
        raise ZgulError("cannot compare: the two systems have no language in common")
    if different := [code for code in languages if truth[code] != same[code]]:
        raise ZgulError(f"cannot compare: the two systems were scored on different test sentences of {different[0]}")
    rows, whole = [], {"all": languages} if len(languages) > 1 else {}
    for name, codes in ({code: [code] for code in languages} | whole).items():
        right, a, b = ([sentence for code in codes for sentence in side[code]] for side in (truth, own, theirs))
        spread, test = bootstrap_f1(right, a, b, samples, confidence), mcnemar(right, a, b)
        f1 = (scores(right, a).f1, scores(right, b).f1, spread.f1, spread.low, spread.high)
        rows.append(LanguageComparison(name, sum(map(len, right)), *f1, test.only_first, test.only_second, test.p))
    return RunComparison(first, second, confidence, samples, rows)


def _find_system(place: str, gold: Path | str | None, task: str) -> System:
    """Read a system. The name of the folder or file may contain a colon."""
    check_task(task)
    for border in (index for index in range(len(place) - 1, 0, -1) if place[index] == ":"):
        if Path(place[:border]).exists():
            name, _, row = place[border + 1 :].partition(":")
            return _stored_system(open_store(place[:border]), name, row)
    if Path(place).is_dir():
        raise ZgulError(f"{place} is a folder: name one of its runs, {place}:RUN[:ROW]")
    if not Path(place).is_file():
        raise ZgulError(f"{place}: no such file, and no results before a colon; give RESULTS:RUN[:ROW] or tagged files")
    if gold is None:
        raise ZgulError(f"{place} is a file: name the file with the right tags, --gold FILE")
    own, right = read_labelled(place, task), read_labelled(gold, task)
    if [sentence.words for sentence in own] != [sentence.words for sentence in right]:
        raise ZgulError(f"cannot compare: {place} and {gold} do not hold the same words in the same sentences")
    return place, {"text": _tags(own)}, {"text": _tags(right)}


def _stored_system(store: Store, name: str, row: str) -> System:
    done = store.runs(status=DONE)
    runs = [run for run in done if name and run.hash.startswith(name)] or [run for run in done if run.name == name]
    if len(runs) != 1:
        few = "\n".join(f"  {run.hash[:10]}  {run.name}" for run in (runs or done)[:20])
        what = f"{len(runs)} runs begin with {name!r}" if runs else f"{store.folder} has no finished run {name!r}"
        raise ZgulError(f"{what}; there are:\n{few}")
    run, stored = runs[0], store.scores(run=runs[0].hash)
    rows = list(dict.fromkeys(score.row for score in stored))
    if row not in rows and (row or len(rows) != 1):
        problem = f"has no row {row!r}" if row else "has several rows"
        raise ZgulError(f"run {run.hash[:10]} {problem}; choose one with RESULTS:RUN:ROW: {' | '.join(rows)}")
    row = row or rows[0]
    scored = {score.language for score in stored if score.row == row}
    languages = [code for code in GROUPS[run.group].targets if code in scored]
    tags = {code: store.predictions(run.hash, row, code) for code in languages}
    gold = {code: _tags(store.gold(run.group, code)) for code in languages}
    return f"{row}, {run.name} ({run.hash[:10]})", tags, gold


def _tags(sentences: list[Sentence]) -> list[list[str]]:
    return [sentence.tags or [] for sentence in sentences]
