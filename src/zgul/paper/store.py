"""Results of experiments: one SQLite file that many processes write to, and one folder for each run.

``FOLDER/results.sqlite`` holds the runs, their scores and predictions, the gold tags and general notes. A score
and the tags that it was computed from are written in one transaction. ``FOLDER/runs/HASH`` holds what a run needs to
continue: its checkpoint and its trained weights. `zgul.paper.export` writes the same as one file for others.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError

FILE = "results.sqlite"
PARTS = ("tuning", "zero-shot", "variants", "few-shot", "unlabelled")  # of the plan, in their order
PLANNED, RUNNING, DONE, FAILED = "planned", "running", "done", "failed"
REPLACED = "replaced"  # done, but with other code, data or settings than the last plan's
SCHEMA = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
_JSON_COLUMNS = ("config", "extra", "facts", "per_class", "em")


@dataclass(frozen=True)
class StoredRun:
    """One run, which trains a model or trains it further: its configuration, status and facts."""

    hash: str
    part: str  # one of PARTS
    group: str
    method: str
    seed: int
    name: str
    config: dict[str, Any]
    extra: dict[str, Any]  # what distinguishes the runs of a part: {"examples": 30, "draw": 1, "language": "fo"}
    status: str = PLANNED
    error: str = ""
    started: float = 0.0
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """The score of one row of a run on one language. All but the counts are percentages."""

    run: str
    row: str  # a title of `zgul.paper.rows`
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
    em: dict[str, Any] | None = None  # EM's settings, if it was used


def _columns(db: sqlite3.Connection) -> dict[str, list[str]]:
    """The columns of each table."""
    query = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
    columns: dict[str, list[str]] = {}
    for table, column in db.execute(query):
        columns.setdefault(table, []).append(column)
    return columns


with closing(sqlite3.connect(":memory:")) as _fresh:
    _fresh.executescript(SCHEMA)
    EXPECTED = _columns(_fresh)

T = TypeVar("T", StoredRun, Score)


class Store:
    """The results in a folder. Each process opens its own. Filters are fields: ``store.scores(row="ZGUL")``."""

    analyses: dict[str, Any] | None = None  # only in an export

    def __init__(self, folder: Path | str, *, create: bool = False) -> None:
        self.folder = Path(folder)
        path = self.folder / FILE
        if not create and not path.is_file():
            raise ZgulError(f"{self.folder} holds no results ({FILE}); make some with: zgul experiment paper")
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
            self._db.execute("PRAGMA synchronous=NORMAL")  # safe if the process is killed, not if the power fails
            columns = _columns(self._db)
            if columns and columns != EXPECTED:
                raise ZgulError(f"{path} was made by another version of zgul; move it away, or choose another folder")
            if create:
                with self.lock("create"):  # SQLite does not wait if two processes choose the journal at once
                    self._db.execute("PRAGMA journal_mode=WAL")
                self._db.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")  # readers see all tables or none
            elif not columns:
                raise ZgulError(f"{self.folder} holds no results yet ({FILE} has no tables)")
        except sqlite3.DatabaseError as error:
            raise ZgulError(f"{path} cannot be used ({error}); move it away, or choose another folder") from error

    def close(self) -> None:
        """Move everything into one file, unless another process is still reading."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()

    def run_folder(self, run: str) -> Path:
        """The folder of a run's checkpoint and weights."""
        return self.folder / "runs" / run

    def lock(self, name: str) -> FileLock:
        """A lock that is released when its process ends, for whatever reason."""
        (self.folder / "locks").mkdir(exist_ok=True)
        return FileLock(self.folder / "locks" / name)

    def _all(self, query: str, *values: str | None) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # locked, for example: the file itself is intact
            damage = f"{self.folder / FILE} is damaged ({error})"
            raise ZgulError(f"{damage}; restore it from a copy, or start in another folder") from error

    @property
    def meta(self) -> dict[str, Any]:
        """General notes on the results."""
        return {key: json.loads(value) for key, value in self._all("SELECT key, value FROM meta ORDER BY key")}

    def runs(self, **filters: Any) -> list[StoredRun]:
        """The runs in the order of part, group, method, seed and name."""
        rows = self._all("SELECT * FROM runs ORDER BY part, grp, method, seed, name, hash")
        return _matching(StoredRun, rows, filters)

    def scores(self, **filters: Any) -> list[Score]:
        """The scores of current runs."""
        query = "SELECT scores.* FROM scores LEFT JOIN runs ON hash = run WHERE status IS NOT ?"
        return _matching(Score, self._all(f"{query} ORDER BY run, row, language", REPLACED), filters)

    def predictions(self, run: str, row: str, language: str) -> list[list[str]]:
        """The tags that a score was computed from."""
        query = "SELECT tags FROM predictions WHERE run = ? AND row = ? AND language = ?"
        for (packed,) in self._all(query, run, row, language):
            return [tags.split(" ") if tags else [] for tags in json.loads(zlib.decompress(packed))]
        raise ZgulError(f"{self.folder} holds no predictions of {row} for {language} by run {run[:12]}")

    def gold(self, group: str, language: str) -> list[Sentence]:
        """The test sentences of a target as they were scored, with their tags."""
        for (packed,) in self._all("SELECT sentences FROM gold WHERE grp = ? AND language = ?", group, language):
            return [Sentence(words, tags, language) for words, tags in json.loads(zlib.decompress(packed))]
        raise ZgulError(f"{self.folder} holds no test sentences of {language} ({group})")

    @property
    def has_sentences(self) -> bool:
        """Whether `gold` has the words of the test files. An export may lack them, and a folder made from one."""
        return any(word for place in self.gold_keys()[:1] for sentence in self.gold(*place) for word in sentence.words)

    def gold_keys(self) -> list[tuple[Any, ...]]:
        """Group and language of all test files whose sentences are kept."""
        return self._all("SELECT grp, language FROM gold ORDER BY grp, language")

    def status(self, run: str) -> str:
        """The status of a run, "" if it is not known."""
        return "".join(status for (status,) in self._all("SELECT status FROM runs WHERE hash = ?", run))

    def facts(self, run: str) -> dict[str, Any]:
        """The facts that are recorded for a run so far."""
        return next((json.loads(facts) for (facts,) in self._all("SELECT facts FROM runs WHERE hash = ?", run)), {})

    def scored(self, run: str) -> set[tuple[Any, ...]]:
        """Rows and languages of a run that have a score."""
        return set(self._all("SELECT row, language FROM scores WHERE run = ?", run))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._db:  # commits at the end, or rolls back
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db

    def _insert(self, table: str, *values: Any, conflict: str = "REPLACE") -> None:
        self._db.execute(f"INSERT OR {conflict} INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    def update(self, run: str, **values: Any) -> None:
        """Change columns of a run: ``store.update(run, status=FAILED, error="…")``."""
        with self._transaction() as db:
            db.execute(f"UPDATE runs SET {' = ?, '.join(values)} = ? WHERE hash = ?", (*_encoded(values), run))

    def note(self, **values: Any) -> None:
        """Add general notes, or replace them."""
        with self._transaction():
            for key, value in values.items():
                self._insert("meta", key, _json(value))

    def plan(self, runs: Iterable[StoredRun]) -> None:
        """Add runs. Known runs stay as they are. Runs of the same name with another hash no longer count."""
        with self._transaction() as db:
            for run in runs:
                same = (run.name, run.hash)
                db.execute("DELETE FROM runs WHERE name = ? AND hash != ? AND status IN ('planned', 'failed')", same)
                db.execute("UPDATE runs SET status = 'replaced' WHERE name = ? AND hash != ?", same)
                db.execute("UPDATE runs SET status = 'done' WHERE hash = ? AND status = 'replaced'", same[1:])
                self._insert("runs", *_encoded(asdict(run)), conflict="IGNORE")

    def add_score(self, score: Score, tags: Sequence[Sequence[str]] | None) -> None:
        """Store a score and, if they are known, the tags that it was computed from."""
        with self._transaction():
            self._insert("scores", *_encoded(asdict(score)))
            if tags is not None:
                packed = _pack([" ".join(sentence) for sentence in tags])
                self._insert("predictions", score.run, score.row, score.language, packed)

    def forget_scores(self, run: str) -> None:
        """Drop the scores of a run that is trained again."""
        with self._transaction() as db:
            for table in ("scores", "predictions"):
                db.execute(f"DELETE FROM {table} WHERE run = ?", (run,))
            db.execute("UPDATE runs SET facts = '{}' WHERE hash = ?", (run,))

    def add_gold(self, group: str, language: str, sentences: Sequence[Sentence]) -> None:
        """Store the test sentences of a target."""
        with self._transaction():
            self._insert("gold", group, language, _pack([(sentence.words, sentence.tags) for sentence in sentences]))


def _matching(cls: type[T], rows: Iterable[tuple[Any, ...]], filters: dict[str, Any]) -> list[T]:
    """The items whose fields have these values. A table's columns are in the order of the fields."""
    decoders = [json.loads if name in _JSON_COLUMNS else lambda value: value for name in cls.__dataclass_fields__]
    items = (cls(*(decode(value) for decode, value in zip(decoders, row, strict=True))) for row in rows)
    return [item for item in items if all(getattr(item, name) == value for name, value in filters.items())]


def _encoded(columns: dict[str, Any]) -> list[Any]:
    return [_json(value) if name in _JSON_COLUMNS else value for name, value in columns.items()]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _pack(value: Any) -> bytes:
    return zlib.compress(_json(value).encode(), 9)
