"""The store of results and its exports: what is written is read back, by many processes and from one file."""

import gzip
import json
import multiprocessing
import re
import sqlite3
import tracemalloc
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.evaluation import scores
from zgul.paper.export import Export, export_results
from zgul.paper.store import DONE, FAILED, RUNNING, Score, Store, StoredRun

TAGS = [["NOUN", "VERB"], [], ["PUNCT"]]


def run(name: str = "a", **values: object) -> StoredRun:
    fields: dict[str, object] = {"part": "zero-shot", "group": "germanic", "method": "zgul", "seed": 0, "name": name}
    return StoredRun(**({"hash": f"hash-{name}", "config": {"lr": 0.1}, "extra": {}} | fields | values))  # type: ignore[arg-type]


def score(run: str = "hash-a", row: str = "ZGUL", language: str = "fo", f1: float = 50.0) -> Score:
    classes = {"NOUN": {"f1": 40.0, "precision": 30.0, "recall": 60.0, "support": 7}}
    return Score(run, row, language, f1, 60.0, 45.0, 55.0, classes, 3, 10, 6, 0.5, {"steps": 5, "lr": 10.0})


def test_what_is_written_is_read(tmp_path):
    store = Store(tmp_path, create=True)
    store.plan([run("b", group="slavic"), run()])
    store.update("hash-a", status=RUNNING)
    assert store.status("hash-a") == RUNNING
    store.add_score(score(), TAGS)
    store.update("hash-a", status=DONE, seconds=2.5, facts={"steps": 10})
    store.update("hash-b", status=FAILED, error="no luck")
    store.add_gold("germanic", "fo", [Sentence(["ein", "bók"], ["DET", "NOUN"], "fo")])
    store.note(command="paper", seeds=[0, 1])

    again = Store(tmp_path)
    done, failed = again.runs()
    assert (done.name, done.status, done.seconds, done.facts, done.config) == (
        "a",
        DONE,
        2.5,
        {"steps": 10},
        {"lr": 0.1},
    )
    assert (failed.status, failed.error) == (FAILED, "no luck")
    assert again.scores() == [score()]
    assert again.predictions("hash-a", "ZGUL", "fo") == TAGS
    assert again.gold("germanic", "fo") == [Sentence(["ein", "bók"], ["DET", "NOUN"], "fo")]
    assert again.meta == {"command": "paper", "seeds": [0, 1]}


def test_filters(tmp_path):
    store = Store(tmp_path, create=True)
    store.plan([run(), run("b", group="slavic", part="few-shot")])
    store.add_score(score(), TAGS)
    store.add_score(score("hash-b", "CPG"), TAGS)
    assert [found.name for found in store.runs(group="slavic")] == ["b"]
    assert [found.row for found in store.scores(run="hash-b")] == ["CPG"]
    assert store.scores(run="hash-b", language="de") == []
    assert [found.run for found in store.scores(row="ZGUL")] == ["hash-a"]
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        store.runs(colour="red")


def test_planning_again_keeps_what_is_done_and_scores_are_replaced(tmp_path):
    store = Store(tmp_path, create=True)
    store.plan([run()])
    store.update("hash-a", status=DONE, seconds=1.0, facts={})
    store.plan([run()])
    assert store.status("hash-a") == DONE
    assert store.status("unknown") == ""
    store.add_score(score(), TAGS)
    store.add_score(score(f1=70.0), [["X"]])
    assert [found.f1 for found in store.scores()] == [70.0]
    assert store.predictions("hash-a", "ZGUL", "fo") == [["X"]]


def test_mistakes_are_explained(tmp_path):
    with pytest.raises(ZgulError, match="holds no results"):
        Store(tmp_path)
    (tmp_path / "begun").mkdir()
    sqlite3.connect(tmp_path / "begun" / "results.sqlite").close()  # by one who has not come to the tables yet
    with pytest.raises(ZgulError, match="holds no results yet"):
        Store(tmp_path / "begun")
    (tmp_path / "older").mkdir()
    with closing(sqlite3.connect(tmp_path / "older" / "results.sqlite")) as database:
        database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        database.execute("CREATE TABLE runs (hash TEXT PRIMARY KEY, name TEXT)")
    for create in (False, True):
        with pytest.raises(ZgulError, match="another version of zgul"):
            Store(tmp_path / "older", create=create)
    store = Store(tmp_path / "new", create=True)
    with pytest.raises(ZgulError, match="no predictions of ZGUL for fo"):
        store.predictions("hash-a", "ZGUL", "fo")
    with pytest.raises(ZgulError, match="no test sentences of fo"):
        store.gold("germanic", "fo")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "results.sqlite").write_text("this is not a database, is it? " * 50)
    with pytest.raises(ZgulError, match="cannot be used"):
        Store(tmp_path / "broken")
    for number in range(200):
        store.note(**{f"key {number}": "x" * 500})
    store.close()
    file = tmp_path / "new" / "results.sqlite"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] + b"\xff" * (len(whole) - len(whole) // 2))
    with pytest.raises(ZgulError, match="is damaged"):
        _ = Store(tmp_path / "new").meta
    (tmp_path / "broken.json").write_text("[]")
    with pytest.raises(ZgulError, match="not an export"):
        Export(tmp_path / "broken.json")


@pytest.mark.parametrize("content", ["null", "[" * 100_000, '{"analyses": {}, "meta": {}, "runs": [1]}', "{}" * 9])
def test_exports_of_others_are_refused(tmp_path, content):
    (tmp_path / "export.json").write_text(content)
    with pytest.raises(ZgulError, match="not an export"):
        Export(tmp_path / "export.json")


def test_a_small_export_that_unpacks_to_much_takes_little(tmp_path):
    (tmp_path / "export.json.gz").write_bytes(gzip.compress(b'{"runs": [' + b"{}," * 5_000_000 + b"{}]}", 1))
    tracemalloc.start()
    try:
        with pytest.raises(ZgulError, match="it has more than"):
            Export(tmp_path / "export.json.gz")
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_a_score_is_written_whole_or_not_at_all(tmp_path):
    store = Store(tmp_path, create=True)
    with sqlite3.connect(tmp_path / "results.sqlite") as other:
        other.execute("DROP TABLE predictions")
    with pytest.raises(sqlite3.OperationalError):
        store.add_score(score(), TAGS)
    assert store.scores() == []


def _write(folder: Path, number: int) -> None:
    store = Store(folder, create=True)
    for index in range(20):
        name = f"{number}-{index}"
        store.plan([run(name)])
        store.add_score(score(f"hash-{name}"), TAGS)
        store.update(f"hash-{name}", status=DONE, seconds=1.0, facts={})


def test_many_processes_write_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(tmp_path, number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    store = Store(tmp_path)
    assert len(store.runs(status=DONE)) == len(store.scores()) == 60


def test_an_export_reads_like_the_store_and_is_the_same_every_time(tmp_path):
    store = Store(tmp_path, create=True)
    store.plan([run(), run("b")])
    store.add_score(score(), TAGS)
    store.add_score(score("hash-b"), TAGS)
    gold = [Sentence(["ein", "b ók"], ["NOUN", "VERB"], "fo"), Sentence([], [], "fo"), Sentence(["."], ["PUNCT"], "fo")]
    store.add_gold("germanic", "fo", gold)
    store.update("hash-a", status=DONE, seconds=1.0, facts={"steps": 3})
    store.note(command="zgul experiment paper")
    export_results(tmp_path, tmp_path / "one.json.gz")
    export_results(tmp_path, tmp_path / "two.json.gz")
    assert (tmp_path / "one.json.gz").read_bytes() == (tmp_path / "two.json.gz").read_bytes()
    export = Export(tmp_path / "one.json.gz")
    assert export.runs() == store.runs(status=DONE)
    assert export.scores() == [score()]  # of the runs that are done
    assert export.meta == store.meta
    assert export.predictions("hash-a", "ZGUL", "fo") == TAGS
    assert export.has_sentences and export.gold("germanic", "fo") == gold


@pytest.mark.parametrize("sentences", [True, False], ids=["with words", "without words"])
def test_every_f1_can_be_computed_again_from_an_export(invented, tmp_path, sentences):
    export_results(invented.folder, tmp_path / "all.json.gz", sentences=sentences)
    export = Export(tmp_path / "all.json.gz")
    group_of = {found.hash: found.group for found in export.runs()}
    for stored in export.scores():
        gold = [sentence.tags for sentence in export.gold(group_of[stored.run], stored.language)]
        again = scores(gold, export.predictions(stored.run, stored.row, stored.language))
        assert (again.f1, again.accuracy) == (stored.f1, stored.accuracy)
    assert len(export.scores()) == len(invented.scores()) > 500


def test_an_export_without_sentences_holds_no_word(invented, tmp_path):
    words = {word for sentence in invented.gold("germanic", "fo") for word in sentence.words}
    for sentences in (True, False):
        export_results(invented.folder, tmp_path / "all.json", sentences=sentences)
        found = set(re.findall(r"fo\d+", (tmp_path / "all.json").read_text()))
        assert found == (words if sentences else set())
        assert Export(tmp_path / "all.json").has_sentences == sentences


def test_an_export_of_the_first_format_has_scores_and_analyses_alone(tmp_path):
    old = {"format": 1, "meta": {"command": "x"}, "analyses": {"mcnemar": []}}
    old |= {"runs": [asdict(run(status=DONE))], "scores": [asdict(score())]}
    (tmp_path / "old.json").write_text(json.dumps(old))
    export = Export(tmp_path / "old.json")
    assert export.scores() == [score()] and export.analyses == {"mcnemar": []} and not export.has_sentences
    with pytest.raises(ZgulError, match="no predictions of ZGUL for fo"):
        export.predictions("hash-a", "ZGUL", "fo")
