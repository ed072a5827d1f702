"""Systems are trained, scored and stored, on made-up data with a real program in a process of its own."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from peers.systems import System, load_systems

from peers import STORED, data, runs, speed, systems
from zgul.corpora import columns
from zgul.corpora.data_folder import DataFolder
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.files import read_json
from zgul.languages import GROUPS

GERMANIC, AFRICAN = GROUPS["germanic"], GROUPS["african"]
WORKER = """
import json
from collections import Counter, defaultdict
from pathlib import Path
import sys
sys.path.insert(0, {folder!r})
from worker import main

def train(sentences, dev, model, settings):
    seen = defaultdict(Counter)
    for words, tags in sentences:
        for word, tag in zip(words, tags):
            seen[word][tag] += 1
    model.write_text(json.dumps({{word: tags.most_common(1)[0][0] for word, tags in seen.items()}}))

def load(model):
    known = json.loads(Path(model).read_text())
    return lambda words: [[known.get(word, {other!r}) for word in own] for own in words]

main("pytest", train, load)
"""


def made_up(group: str, folder: Path, sentences: int = 40) -> Path:
    """A data folder for a group, in which the ending of a word tells its tag."""
    draw = random.Random(0)
    own = GROUPS[group]
    for language in {*own.sources, *own.targets}:
        for split in ("train", "dev") if language in own.sources else ("test",):
            drawn = []
            for _ in range(sentences):
                kinds = [draw.choice("ABC") for _ in range(6)]
                words = [f"{''.join(draw.choices('mnrst', k=2))}{'aio'['ABC'.index(kind)]}" for kind in kinds]
                tags = {"pos": ("NOUN", "VERB", "ADJ"), "ner": ("O", "B-PER", "B-LOC")}[own.task]
                drawn.append(Sentence(words, [tags["ABC".index(kind)] for kind in kinds], language))
            columns.write(folder / own.task / language / f"{split}.tsv", drawn)
    return folder


@pytest.fixture
def lookup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    """A peer that gives each word its most frequent tag."""
    monkeypatch.setattr(systems, "PYTHON", Path(sys.executable))
    worker = tmp_path / "lookup.py"
    worker.write_text(WORKER.format(folder=str(systems.HERE / "workers"), other="NOUN"))
    return System(
        "lookup", "Lookup", str(worker), {"settings": {"a": 1}, "pos": {"b": 2}, "groups": {"slavic": {"b": 3}}}
    )


def test_a_system_is_trained_scored_and_stored(tmp_path: Path, lookup: System) -> None:
    folder, said = made_up("germanic", tmp_path / "data"), list[str]()
    place = (folder, tmp_path / "runs", tmp_path / "stored")
    result = runs.run(lookup, GERMANIC, *place, said.append)
    assert result["sentences"] == 120 and result["settings"] == {"a": 1, "b": 2} and result["bytes"] > 100
    assert list(result["f1"]) == ["fo", "got", "gsw"] and all(50 < f1 <= 100 for f1 in result["f1"].values())
    assert said and "fo" in said[0] and runs.check(folder, tmp_path / "stored") == []
    (tmp_path / "lookup.py").unlink()  # nothing is run again
    assert runs.run(lookup, GERMANIC, *place, said.append) == read_json(tmp_path / "stored" / "lookup-germanic.json")
    tags = tmp_path / "stored" / "tags" / "lookup-fo.txt.xz"
    data.store_tags(tags, [["X"] * len(sentence) for sentence in data.stored_tags(tags)])
    assert any("F1 of fo" in line for line in runs.check(folder, tmp_path / "stored"))
    test_file = folder / "pos" / "got" / "test.tsv"
    test_file.write_text(test_file.read_text().replace("NOUN", "VERB", 1))
    assert any("got is another one" in line for line in runs.check(folder, tmp_path / "stored"))


def test_other_settings_train_again(tmp_path: Path, lookup: System) -> None:
    folder = made_up("germanic", tmp_path / "data", 5)
    runs.train(lookup, GERMANIC, folder, tmp_path / "runs")
    (model := tmp_path / "runs" / "lookup" / "model").write_text("{}")
    runs.train(lookup, GERMANIC, folder, tmp_path / "runs")
    assert model.read_text() == "{}"
    runs.train(replace(lookup, options={"settings": {"a": 4}}), GERMANIC, folder, tmp_path / "runs")
    assert model.read_text() != "{}"


def test_peers_get_the_sentences_of_the_shipped_tagger(tmp_path: Path) -> None:
    folder = made_up("african", tmp_path / "data")
    train, dev = data.export(AFRICAN, folder, tmp_path / "runs")
    read = DataFolder(folder).sentences
    for path, split in ((train, "train"), (dev, "dev")):
        wanted = [sentence for code in AFRICAN.sources for sentence in read("ner", code, split)]
        assert [(s.words, s.tags) for s in columns.read(path)] == [(s.words, s.tags) for s in wanted]
    words = data.export_test(AFRICAN, "luo", folder, tmp_path / "runs")
    assert "PER" not in words.read_text() and len(words.read_text().splitlines()) == 40 * 7


def test_a_cut_takes_some_sentences_of_each_source(tmp_path: Path, lookup: System) -> None:
    place = (made_up("germanic", tmp_path / "data"), tmp_path / "runs", tmp_path / "stored")
    result = runs.run(lookup, GERMANIC, *place, print, limit=10)
    assert result["sentences"] == 30 and result["limit"] == 10
    whole, _ = data.export(GERMANIC, place[0], tmp_path / "runs" / "germanic")
    cut = list(columns.read(tmp_path / "runs" / "germanic-10" / "train.tsv", "pos"))
    assert {tuple(s.words) for s in cut} < {tuple(s.words) for s in columns.read(whole, "pos")}


def test_speed_is_measured_on_one_file_of_each_task(tmp_path: Path, lookup: System) -> None:
    place = (made_up("germanic", tmp_path / "data"), tmp_path / "runs", tmp_path / "stored")
    made_up("african", tmp_path / "data")
    runs.run(lookup, GERMANIC, *place, print, limit=10)
    speed.measure({"lookup": lookup}, *place, 5, print)
    timed, untimed = (read_json(tmp_path / "stored" / f"speed.{code}.json") for code in ("fo", "pcm"))
    row = timed["systems"]["lookup"]
    assert timed["words"] == 5 * 6 and 0 < row["lowest"] <= row["words_per_second"] <= row["highest"]
    assert untimed["systems"] == {}  # it has no model for this group


def test_a_failed_or_missing_peer_is_named(tmp_path: Path, lookup: System, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZgulError, match="Lookup failed"):
        lookup.call("tag", str(tmp_path / "none"), "", "")
    monkeypatch.setattr(systems, "PYTHON", tmp_path / "python")
    with pytest.raises(ZgulError, match=r"Lookup is not installed\. Run: make peers"):
        lookup.call("tag")


@pytest.mark.parametrize("group", ["germanic", "african"])
@pytest.mark.parametrize("name", ["udpipe", "spacy"])
@pytest.mark.slow
def test_the_peers_learn_endings(name: str, group: str, tmp_path: Path) -> None:
    if not systems.PYTHON.is_file():
        pytest.skip("the peers are not installed (make peers installs them into .venv-peers)")
    system = load_systems()[name]
    more = {"udpipe": {"iterations": 3}, "spacy": {"epochs": 15, "eval_frequency": 10, "batch_words": 100}}[name]
    system = replace(system, options=system.options | {"groups": {group: more}})
    folder = made_up(group, tmp_path / "data")
    result = runs.run(system, GROUPS[group], folder, tmp_path / "runs", tmp_path / "stored", print)
    assert min(result["f1"].values()) > 85 and result["cpu_seconds"] > 0
    again = runs.train(system, GROUPS[group], folder, tmp_path / "again")
    assert again["dev_f1"] == result["dev_f1"]  # the same seed


def test_stored_scores_follow_from_stored_tags(shared_data: Path) -> None:
    assert runs.check(shared_data, STORED) == []
