"""Results as one JSON file that can be published: ``.json``, ``.json.gz``, ``.json.xz``.

Format 2 holds notes, runs, scores with their predictions, gold tags and the analyses that `analyse` makes. A tag is
one character ("tags" maps characters to tags), a correct prediction is a dot, and spaces separate sentences. The words
of the test files can be left out, because not every licence allows passing them on. Format 1 had neither predictions
nor gold tags. Both formats can be read. ``export.toml`` says which fields are read, and what they hold.
"""

import json
import sqlite3
import string
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zgul.corpora.data_folder import TEXT_KINDS, DataFolder
from zgul.corpora.sentence import Sentence
from zgul.corpora.stats import measure
from zgul.errors import ZgulError
from zgul.evaluation import mcnemar
from zgul.files import DAMAGED, create_binary, open_binary
from zgul.languages import GROUPS, SOURCES, TARGETS
from zgul.paper.frame import Frame
from zgul.paper.numbers import EXAMPLES
from zgul.paper.rows import COMPARED, TRAINED, ZGUL
from zgul.paper.store import DONE, SCHEMA, Score, Store, StoredRun
from zgul.progress import Report, Status, silent

AnyPath = Path | str
Analysis = dict[str, Any]
WORDS = (4, 12)  # of a disputed sentence: shorter ones say little, longer ones do not fit on a line
DISPUTED = 2  # sentences of each language
MAX_EXPORT = 50_000_000  # bytes; the paper's whole protocol with its sentences has ten million
MOST_PACKED = 50  # bytes for a byte of a packed export; ours unpack to eight
FORMS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_KINDS: dict[str, Callable[[Any], bool]] = {
    "an object": lambda value: isinstance(value, dict),
    "a list": lambda value: isinstance(value, list),
    "text": lambda value: isinstance(value, str) and value.encode(errors="ignore").decode() == value,
    "a tag": lambda value: isinstance(value, str) and value.split() == [value],
    "a group": lambda value: value in (*GROUPS,),
    "a method": lambda value: value in TRAINED,
    "a target": lambda value: value in TARGETS,
    "a number": lambda value: type(value) in (int, float) and abs(value) < 1e12,
    "a count": lambda value: type(value) is int and 0 <= value < 1e12,
}
_LETTERS = string.ascii_letters + string.digits + "".join(map(chr, range(0xC0, 0x250)))


class TagAlphabet(dict[str, str]):
    """A character for each tag, assigned in the order in which the tags appear."""

    def __missing__(self, tag: str) -> str:
        return self.setdefault(tag, _LETTERS[len(self)])

    def encode(self, tags: Sequence[Sequence[str] | None]) -> str:
        """The tags of all sentences as one text."""
        return " ".join("".join(map(self.__getitem__, sentence or ())) for sentence in tags)


def open_store(place: AnyPath) -> Store:
    """The results in a folder of ``zgul experiment paper`` or in a file of ``zgul experiment export``."""
    if not Path(place).exists():
        raise ZgulError(f"{place}: no such folder or file. Give the --output of zgul experiment paper, or an export.")
    return Store(place) if Path(place).is_dir() else Export(place)


def export_results(folder: AnyPath, path: AnyPath, data: AnyPath | None = None, *, sentences: bool = True) -> None:
    """Write the finished runs of a folder of results. The same results give the same bytes.

    ``data`` is the data folder, for the statistics of the datasets. Without ``sentences``, the export has no words of
    the test files. It still has the gold tags, so that every F1 can be computed again.
    """
    store, alphabet = Store(folder), TagAlphabet()
    gold: dict[tuple[str, str], dict[str, Any]] = {}
    for group, language in store.gold_keys():
        test = store.gold(group, language)
        words = {"words": ["\t".join(sentence.words) for sentence in test]} if sentences else {}
        tags = alphabet.encode([sentence.tags for sentence in test])
        gold[group, language] = {"group": group, "language": language, "tags": tags, **words}
    runs = {run.hash: run for run in store.runs(status=DONE)}
    scores = []
    for score in (score for score in store.scores() if score.run in runs):
        tags = alphabet.encode(store.predictions(score.run, score.row, score.language))
        right = gold[runs[score.run].group, score.language]["tags"]
        dotted = "".join("." if a == b != " " else a for a, b in zip(tags, right, strict=True))
        scores.append(asdict(score) | {"tags": dotted})
    stored = [asdict(run) for run in runs.values()]
    whole = {"format": 2, "meta": store.meta, "runs": stored, "scores": scores, "gold": list(gold.values())}
    whole["tags"] = {letter: tag for tag, letter in alphabet.items()}
    whole["analyses"] = analyse(store, data, sentences=sentences)
    with create_binary(path) as file:
        file.write((json.dumps(whole, ensure_ascii=False, sort_keys=True, indent=1) + "\n").encode())


class Export(Store):
    """Results read from an export into memory, with predictions and sentences if the file contains them."""

    def __init__(self, path: AnyPath) -> None:
        self.folder = Path(path)
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.executescript(SCHEMA)
        with open_binary(path) as file:
            most = min(MAX_EXPORT, (1 << 20) + MOST_PACKED * self.folder.stat().st_size)
            try:
                content = file.read(most + 1)
                if len(content) > most:
                    raise ValueError(f"it has more than {most:,} bytes")
                self._load(json.loads(content))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError, *DAMAGED, sqlite3.Error) as e:
                raise ZgulError(f"{path} is not an export of results ({e}); see: zgul experiment export") from e

    def _load(self, whole: dict[str, Any]) -> None:
        check_form(whole, "an export")
        for number, run in enumerate(whole["runs"]):
            check_form(run, FORMS.get(f"{run['part']} runs", {}), f"runs.{number}.")
        self.analyses, key = dict(whole["analyses"]), whole.get("tags", {})

        def decode(text: str, right: str) -> list[list[str]]:
            pairs = zip(text.split(" "), right.split(" "), strict=True)
            return [[key[b if a == "." else a] for a, b in zip(said, own, strict=True)] for said, own in pairs]

        self.note(**whole["meta"])
        self.plan(StoredRun(**run) for run in whole["runs"])
        group_of, gold, field = {run["hash"]: run["group"] for run in whole["runs"]}, {}, ""
        try:
            for number, entry in enumerate(whole.get("gold", [])):
                field, place = f"gold.{number}", (entry["group"], entry["language"])
                gold[place], tags = entry["tags"], decode(entry["tags"], entry["tags"])
                lines = entry.get("words") or ["\t" * (len(sentence) - 1) for sentence in tags]
                words = (line.split("\t")[: len(sentence)] for line, sentence in zip(lines, tags, strict=True))
                self.add_gold(*place, list(map(Sentence, words, tags)))
            for number, score in enumerate(whole["scores"]):
                field, said = f"scores.{number}", score.pop("tags", None)
                place = (group_of[score["run"]], score["language"])
                self.add_score(Score(**score), None if said is None else decode(said, gold[place]))
            for name in ("examples", "paper_examples"):
                for number, item in enumerate(self.analyses.get(name) or ()):
                    field = f"analyses.{name}.{number}"
                    list(zip(item["words"], item["gold"], *item["tags"].values(), strict=True))
        except (LookupError, ValueError) as error:
            raise ValueError(f"{field} does not fit the rest: its run, words or tags") from error


def check_form(value: Any, form: Any, field: str = "") -> None:
    """Raise unless a value has a form of ``export.toml``. ``field`` leads to it, as in "runs.0."."""
    form = FORMS.get(form, form) if isinstance(form, str) else form
    kind = form if isinstance(form, str) else "a list" if isinstance(form, list) else "an object"
    if not _KINDS[kind](value):
        raise ValueError(f"{field[:-1] or 'it'} is {value!r:.40}, not {kind}")
    if kind == "a list":
        for number, item in enumerate(value):
            check_form(item, form[0], f"{field}{number}.")
    elif kind == "an object":
        for name, inner in form.items():
            for key in value if name.startswith("*") else [name.rstrip("?~")]:
                if name == "*language" and key not in (*SOURCES, *TARGETS):
                    raise ValueError(f"{field}{key} is not a language of the paper")
                if key in value and not (value[key] is None and name.endswith("~")):
                    check_form(value[key], inner, f"{field}{key}.")
                elif key not in value and not name.endswith(("?", "~")):
                    raise ValueError(f"{field}{key} is missing")


def add_sentences(store: Store, data: DataFolder) -> None:
    """Add the words of the test files to results without them and, in an export, the examples that these allow."""
    for group, language in store.gold_keys():
        test = data.sentences(GROUPS[group].task, language, "test")
        if [sentence.tags for sentence in test] != [sentence.tags for sentence in store.gold(group, language)]:
            raise ZgulError(
                f"{data.path}: the test file of {language} is not the one that these results were scored on"
            )
        store.add_gold(group, language, test)
    if store.analyses is not None:
        examples, printed = _choose_examples(Frame(store))
        store.analyses |= {"examples": examples, "paper_examples": printed}


def analyse(store: Store, data: AnyPath | None = None, report: Report = silent, *, sentences: bool = True) -> Analysis:
    """Compute what the report needs besides scores. Exports contain the result.

    Sentences on which the methods disagree, and the paper's examples, are included if ``sentences`` is true.
    """
    frame = Frame(store)
    analyses: Analysis = {"mcnemar": _count_words(frame, report), "examples": None, "paper_examples": None}
    if sentences:
        analyses["examples"], analyses["paper_examples"] = _choose_examples(frame)
    statistics = asdict(measure(data, report)) if data is not None else None
    analyses["statistics"] = statistics and {name: statistics[name] for name in ("groups", "targets")}
    analyses["text"] = _count_text(DataFolder(data)) if data is not None and frame.groups("unlabelled") else {}
    return analyses


def _count_words(frame: Frame, report: Report) -> list[Analysis]:
    """Count the words that only ZGUL, or only the other row, tags correctly: by group, row and seed."""
    counts, groups = [], frame.groups()
    for done, group in enumerate(groups, start=1):
        gold = [s.tags or [] for code in frame.languages(group) for s in frame.store.gold(group, code)]
        own = _pooled_tags(frame, group, ZGUL)
        for row in frame.rows(group):
            other = _pooled_tags(frame, group, row) if row != ZGUL else {}
            for seed in sorted(own.keys() & other.keys()):
                test = mcnemar(gold, own[seed], other[seed])
                words = {"only_zgul": test.only_first, "only_row": test.only_second, "words": sum(map(len, gold))}
                counts.append({"part": "zero-shot", "group": group, "row": row, "seed": seed} | words)
        report(Status("comparing", done, len(groups)))
    return counts


def _pooled_tags(frame: Frame, group: str, row: str) -> dict[int, list[list[str]]]:
    """The tags of a row on all sentences of a group, for each seed that has all languages."""
    entries = {(entry.run.seed, entry.score.language): entry for entry in frame.entries(row, group)}
    places = {seed: [(seed, code) for code in frame.languages(group)] for seed, _ in entries}
    return {
        seed: [tags for place in needed for tags in frame.tags(entries[place])]
        for seed, needed in places.items()
        if all(place in entries for place in needed)
    }


def _choose_examples(frame: Frame) -> tuple[list[Analysis], list[Analysis]]:
    """Choose the most disputed sentences of each language, and find the examples of the paper.

    Of equally disputed sentences, the shorter and the earlier come first. Tags are those of the lowest common seed.
    """
    disputed, printed = [], []
    for group, language in [(name, code) for name in frame.groups() for code in frame.languages(name)]:
        by_row = {row: {e.run.seed: e for e in frame.entries(row, group, language=language)} for row in COMPARED}
        if seeds := set.intersection(*map(set, by_row.values())):
            place = {"group": group, "language": language, "seed": min(seeds)}
            tags = {row: frame.tags(entries[min(seeds)]) for row, entries in by_row.items()}
            sentences: list[Analysis] = []
            for index, gold in enumerate(frame.store.gold(group, language)):
                said = {row: by_sentence[index] for row, by_sentence in tags.items()}
                sentences.append(place | {"sentence": index + 1, "words": gold.words, "gold": gold.tags, "tags": said})
            short = [item for item in sentences if WORDS[0] <= len(item["words"]) <= WORDS[1]]
            words = [[len({*tags}) > 1 for tags in zip(*item["tags"].values(), strict=True)] for item in short]
            order = sorted(range(len(short)), key=lambda n: (-sum(words[n]), len(words[n])))
            disputed += [short[n] for n in order if any(words[n])][:DISPUTED]
            for example in (example for example in EXAMPLES if example.language == language):
                same = (item for item in sentences if example.stands_in(item["words"]))
                printed += [item | {"label": example.label} for item in same]
    return disputed, printed


def _count_text(data: DataFolder) -> dict[str, dict[str, int]]:
    """Lines of unlabelled text, open and research, of all targets that have some."""
    kinds = {code: [kind for kind in TEXT_KINDS if data.text_files(code, [kind])] for code in sorted(TARGETS)}
    return {c: {kind: sum(1 for _ in data.text_lines(c, [kind])) for kind in kinds[c]} for c in kinds if kinds[c]}
