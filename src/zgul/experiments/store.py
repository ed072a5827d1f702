"""Results of experiments: one SQLite file that many processes write to, and one folder a run.

``FOLDER/results.sqlite`` holds the runs, their scores and predictions, the gold tags and notes on the whole; a score
and the tags that it was computed from are written in one transaction. ``FOLDER/runs/HASH`` holds what a run needs to go
on: its checkpoint, its trained weights. An export is the same, but for tags, as one JSON file that can be published.
"""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.files import create_binary, open_binary

FILE = "results.sqlite"
FORMAT = 1
PLANNED, RUNNING, DONE, FAILED = "planned", "running", "done", "failed"
REPLACED = "replaced"  # done, but by other code, data or settings than the last plan's

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    hash TEXT PRIMARY KEY, part TEXT, grp TEXT, method TEXT, seed INTEGER, name TEXT, config TEXT, extra TEXT,
    status TEXT, error TEXT, started REAL, seconds REAL, facts TEXT
);
CREATE TABLE IF NOT EXISTS scores (
    run TEXT, row TEXT, language TEXT, f1 REAL, accuracy REAL, precision REAL, recall REAL, per_class TEXT,
    sentences INTEGER, words INTEGER, correct INTEGER, seconds REAL, em TEXT, PRIMARY KEY (run, row, language)
);
CREATE TABLE IF NOT EXISTS predictions (
    run TEXT, row TEXT, language TEXT, tags BLOB, PRIMARY KEY (run, row, language)
);
CREATE TABLE IF NOT EXISTS gold (grp TEXT, language TEXT, sentences BLOB, PRIMARY KEY (grp, language));
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
"""


@dataclass(frozen=True)
class StoredRun:
    """One trained model, or one that was trained further, and how it went."""

    hash: str
    part: str  # "zero-shot", "treated", "few-shot", "unlabelled"
    group: str
    method: str
    seed: int
    name: str
    config: dict[str, Any]
    extra: dict[str, Any]  # what tells runs of a part apart: {"examples": 30, "draw": 1, "language": "fo"}
    status: str = PLANNED
    error: str = ""
    started: float = 0.0
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """What one way of inferring with a run's model scores on one language; percentages but for the counts."""

    run: str
    row: str  # title of the row in the paper
    language: str
    f1: float
    accuracy: float
    precision: float
    recall: float
    per_class: dict[str, dict[str, float]]
    sentences: int
    words: int
    correct: int  # words with the right tag
    seconds: float
    em: dict[str, Any] | None = None  # settings of EM where it was used


T = TypeVar("T", StoredRun, Score)


class Results:
    """Reading results, wherever they are: filters are fields of what is read, ``store.scores(row="ZGUL")``."""

    @property
    def meta(self) -> dict[str, Any]:
        raise NotImplementedError

    def _runs(self) -> list[StoredRun]:
        raise NotImplementedError

    def _scores(self) -> list[Score]:
        raise NotImplementedError

    def runs(self, **filters: Any) -> list[StoredRun]:
        """Runs in the order of part, group, method, seed and name."""
        return _matching(self._runs(), filters)

    def scores(self, *, part: str | None = None, group: str | None = None, **filters: Any) -> list[Score]:
        """Scores, also by the part and group of their run."""
        found = _matching(self._scores(), filters)
        if part is None and group is None:
            return found
        of = {run.hash for run in self._runs() if part in (None, run.part) and group in (None, run.group)}
        return [score for score in found if score.run in of]


class Store(Results):
    """The results in a folder; each process opens its own."""

    def __init__(self, folder: Path | str, *, create: bool = False) -> None:
        self.folder = Path(folder)
        path = self.folder / FILE
        if not create and not path.is_file():
            raise ZgulError(f"{self.folder} holds no results ({FILE}); make some with: zgul experiment paper")
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")  # safe against a kill; a power cut may cost the last writes
            if create:
                self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")  # who reads beside it sees all or none
            begun = self._db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise ZgulError(f"{path} cannot be used ({error}); move it away, or choose another folder") from error
        if not begun:
            self._db.close()
            raise ZgulError(f"{self.folder} holds no results yet ({FILE} has no tables)")

    def close(self) -> None:
        """All into the one file, unless another process is still reading."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()

    def run_folder(self, run: str) -> Path:
        """Where a run keeps its checkpoint and weights."""
        return self.folder / "runs" / run

    def lock(self, name: str) -> FileLock:
        """A lock that goes with the process that holds it, however it ends."""
        folder = self.folder / "locks"
        folder.mkdir(exist_ok=True)
        return FileLock(folder / name)

    # --- reading

    def _all(self, query: str, values: Sequence[str] = ()) -> list[dict[str, Any]]:
        """What a query finds, by column."""
        try:
            lines = self._db.execute(query, values)
            names = [column[0] for column in lines.description]
            return [dict(zip(names, line, strict=True)) for line in lines]
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # locked, say: the file itself is whole
            told = f"{self.folder / FILE} is damaged ({error})"
            raise ZgulError(f"{told}; restore it from a copy, or start in another folder") from error

    @property
    def meta(self) -> dict[str, Any]:
        return {row["key"]: json.loads(row["value"]) for row in self._all("SELECT key, value FROM meta ORDER BY key")}

    def _runs(self) -> list[StoredRun]:
        rows = self._read("runs", "part, grp, method, seed, name, hash", ("config", "extra", "facts"))
        return [StoredRun(**{"group" if name == "grp" else name: value for name, value in row.items()}) for row in rows]

    def _scores(self) -> list[Score]:
        current = f"WHERE run NOT IN (SELECT hash FROM runs WHERE status = '{REPLACED}')"
        rows = self._read("scores", "run, row, language", ("per_class", "em"), current)
        return [Score(**row) for row in rows]

    def _read(self, table: str, order: str, packed: tuple[str, ...], where: str = "") -> Iterator[dict[str, Any]]:
        """The lines of a table; its packed columns are JSON."""
        for row in self._all(f"SELECT * FROM {table} {where} ORDER BY {order}"):
            yield row | {name: json.loads(row[name]) for name in packed}

    def predictions(self, run: str, row: str, language: str) -> list[list[str]]:
        """The tags that a score was computed from."""
        where = "WHERE run = ? AND row = ? AND language = ?"
        found = self._all(f"SELECT tags FROM predictions {where}", (run, row, language))
        if not found:
            raise ZgulError(f"{self.folder} holds no predictions of {row} for {language} by run {run[:12]}")
        return [line.split(" ") if line else [] for line in _unpack(found[0]["tags"])]

    def gold(self, group: str, language: str) -> list[Sentence]:
        """The test sentences of a target as they were scored, with their tags."""
        found = self._all("SELECT sentences FROM gold WHERE grp = ? AND language = ?", (group, language))
        if not found:
            raise ZgulError(f"{self.folder} holds no test sentences of {language} ({group})")
        return [Sentence(words, tags, language) for words, tags in _unpack(found[0]["sentences"])]

    # --- writing

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def note(self, **values: Any) -> None:
        """Remember facts on the whole."""
        with self._transaction():
            for key, value in values.items():
                self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, _json(value)))

    def plan(self, runs: Iterable[StoredRun]) -> None:
        """Make runs known; those that are known stay as they are.

        A run of the same name that came of something else (older code, other settings) no longer counts.
        """
        with self._transaction():
            for run in runs:
                same = (run.name, run.hash)
                self._db.execute(
                    "DELETE FROM runs WHERE name = ? AND hash != ? AND status IN ('planned', 'failed')", same
                )
                self._db.execute(f"UPDATE runs SET status = '{REPLACED}' WHERE name = ? AND hash != ?", same)
                self._db.execute(
                    f"UPDATE runs SET status = '{DONE}' WHERE hash = ? AND status = '{REPLACED}'", (run.hash,)
                )
                self._db.execute(
                    "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        *(run.hash, run.part, run.group, run.method, run.seed, run.name),
                        *(_json(run.config), _json(run.extra), run.status, run.error),
                        *(run.started, run.seconds, _json(run.facts)),
                    ),
                )

    def start(self, run: str) -> None:
        """A run begins, or begins again."""
        with self._transaction():
            self._db.execute(
                "UPDATE runs SET status = ?, error = '', started = ? WHERE hash = ?", (RUNNING, time.time(), run)
            )

    def finish(self, run: str, seconds: float, facts: dict[str, Any]) -> None:
        """A run is done."""
        with self._transaction():
            self._db.execute(
                "UPDATE runs SET status = ?, seconds = ?, facts = ? WHERE hash = ?", (DONE, seconds, _json(facts), run)
            )

    def remember(self, run: str, facts: dict[str, Any]) -> None:
        """Keep what is known of a run that still goes on."""
        with self._transaction():
            self._db.execute("UPDATE runs SET facts = ? WHERE hash = ?", (_json(facts), run))

    def fail(self, run: str, error: str) -> None:
        """A run did not get through."""
        with self._transaction():
            self._db.execute("UPDATE runs SET status = ?, error = ? WHERE hash = ?", (FAILED, error, run))

    def status(self, run: str) -> str:
        """How a run stands; "" if it is not known."""
        found = self._db.execute("SELECT status FROM runs WHERE hash = ?", (run,)).fetchone()
        return str(found[0]) if found else ""

    def facts(self, run: str) -> dict[str, Any]:
        """What is known of a run so far."""
        found = self._db.execute("SELECT facts FROM runs WHERE hash = ?", (run,)).fetchone()
        return dict(json.loads(found[0])) if found else {}

    def scored(self, run: str) -> set[tuple[str, str]]:
        """Rows and languages of a run that have a score."""
        return set(self._db.execute("SELECT row, language FROM scores WHERE run = ?", (run,)))

    def has_gold(self, group: str, language: str) -> bool:
        found = self._db.execute("SELECT 1 FROM gold WHERE grp = ? AND language = ?", (group, language)).fetchone()
        return found is not None

    def add_score(self, score: Score, tags: Sequence[Sequence[str]]) -> None:
        """Keep a score with the tags it comes from."""
        values = asdict(score) | {"per_class": _json(score.per_class), "em": _json(score.em)}
        with self._transaction():
            self._db.execute(
                f"INSERT OR REPLACE INTO scores ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
                tuple(values.values()),
            )
            self._db.execute(
                "INSERT OR REPLACE INTO predictions VALUES (?, ?, ?, ?)",
                (score.run, score.row, score.language, _pack([" ".join(sentence) for sentence in tags])),
            )

    def forget_scores(self, run: str) -> None:
        """Drop the scores of a run that is trained again."""
        with self._transaction():
            for table in ("scores", "predictions"):
                self._db.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
            self._db.execute("UPDATE runs SET facts = '{}' WHERE hash = ?", (run,))

    def add_gold(self, group: str, language: str, sentences: Sequence[Sentence]) -> None:
        """Keep the test sentences of a target."""
        packed = _pack([(sentence.words, sentence.tags) for sentence in sentences])
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO gold VALUES (?, ?, ?)", (group, language, packed))

    # --- publishing

    def export(self, path: Path | str, data: Path | str | None = None, *, sentences: bool = True) -> None:
        """Write what is done as JSON (``.json``, ``.json.gz``), the same bytes for the same results.

        Without ``sentences`` no sentence of the test files is in it: not everyone may pass those on.
        """
        from zgul.experiments.report.analyses import compute

        runs = [asdict(run) for run in self.runs(status=DONE)]
        done = {run["hash"] for run in runs}
        analyses = compute(self, Path(data) if data is not None else None)
        if not sentences:
            analyses["examples"] = None
        whole = {
            "format": FORMAT,
            "meta": self.meta,
            "runs": runs,
            "scores": [asdict(score) for score in self.scores() if score.run in done],
            "analyses": analyses,
        }
        with create_binary(path) as file:
            file.write((_json(whole, indent=1) + "\n").encode())

    @staticmethod
    def from_export(path: Path | str) -> Export:
        """Read an export."""
        return Export(path)


class Export(Results):
    """Results read back from an export: all but tags and test sentences, and ``analyses`` made of those."""

    def __init__(self, path: Path | str) -> None:
        with open_binary(path) as file:
            try:
                whole = json.loads(file.read())
                self._all_runs = [StoredRun(**run) for run in whole["runs"]]
                self._all_scores = [Score(**score) for score in whole["scores"]]
                self._meta, self.analyses = dict(whole["meta"]), dict(whole["analyses"])
            except (ValueError, KeyError, TypeError, EOFError, OSError) as error:
                raise ZgulError(f"{path} is not an export of results ({error}); see: zgul experiment export") from error

    @property
    def meta(self) -> dict[str, Any]:
        return self._meta

    def _runs(self) -> list[StoredRun]:
        return self._all_runs

    def _scores(self) -> list[Score]:
        return self._all_scores


def _matching(items: list[T], filters: dict[str, Any]) -> list[T]:
    for name in filters:
        if items and not hasattr(items[0], name):
            raise ValueError(f"{type(items[0]).__name__} has no field {name!r}")
    return [item for item in items if all(getattr(item, name) == value for name, value in filters.items())]


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)


def _pack(value: Any) -> bytes:
    return zlib.compress(_json(value).encode(), 9)


def _unpack(value: bytes) -> Any:
    return json.loads(zlib.decompress(value))
