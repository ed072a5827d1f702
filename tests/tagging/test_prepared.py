"""Prepared taggers: the same tags and probabilities, from a file in the cache that several processes may make."""

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import zgul
from threads import in_threads
from zgul.encoders import embedded
from zgul.fast.engine import engine
from zgul.files import shipped_folder
from zgul.tagging import loading
from zgul.tagging.loading import ShippedTagger, load_shipped
from zgul.tagging.prepared import prepared_file

TEXT = "Hetta er ein lítil roynd. Kennir tú hana?"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the encoder alone, and nothing loaded yet."""
    folder = embedded.converted()
    (tmp_path / folder.name).symlink_to(folder)
    monkeypatch.setenv("ZGUL_CACHE", str(tmp_path))
    forget()
    return tmp_path


def forget() -> None:
    loading._load.cache_clear()
    loading._whole.cache_clear()


def files(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.safetensors"))


def tags(**choices: object) -> dict[str, object]:
    return zgul.load("fo", **choices).tag(TEXT).to_dict()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["germanic-pos", "fo-pos", "all-ner"])
def test_a_prepared_model_is_the_folded_one(cache: Path, name: str) -> None:
    whole = loading._whole(shipped_folder() / name)
    load_shipped(name)  # which writes the file
    forget()
    ready = load_shipped(name)
    assert "model" not in vars(ready) and files(cache) == [prepared_file(shipped_folder() / name)]
    one, other = ready.engine.model, engine(whole.model).model
    values = [dict([*model.named_parameters(), *model.named_buffers()]) for model in (one, other)]
    assert values[0].keys() == values[1].keys()
    assert all(torch.equal(value, values[1][key]) for key, value in values[0].items())
    assert [type(module) for module in one.modules()] == [type(module) for module in other.modules()]
    same = ("method", "task", "encoder_name", "strategy", "em", "decode", "precision", "about", "labels")
    assert {key: getattr(ready, key) for key in same} == {key: getattr(whole, key) for key in same}
    assert (ready.bank_languages, list(ready.sources)) == (whole.bank_languages, list(whole.sources))
    table, expected = (tagger.language_table(["fo", "en", "sw"]) for tagger in (ready, whole))
    assert torch.equal(table.values, expected.values)
    assert "model" not in vars(ready) and torch.equal(ready.model.head.weight, whole.model.head.weight)


@pytest.mark.parametrize("choices", [{"task": "both"}, {"em_steps": 2}, {"weights": True}, {"adapted": False}])
def test_tags_and_probabilities_stay_the_same(
    cache: Path, monkeypatch: pytest.MonkeyPatch, choices: dict[str, object]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(loading, "read_prepared", lambda path: None)
        patch.setattr(loading, "prepare", lambda tagger, path: False)
        expected = tags(**choices)
    assert not files(cache)
    forget()
    first = tags(**choices)  # makes the file
    assert files(cache)
    forget()
    assert expected == first == tags(**choices)


@pytest.mark.parametrize("left", [100, 1_000_000])
def test_a_damaged_file_is_made_again(cache: Path, left: int) -> None:
    expected, (path,) = tags(), files(cache)
    content = path.read_bytes()
    path.unlink()  # the old content is mapped
    path.write_bytes(content[:left])
    forget()
    assert tags() == expected and files(cache) == [path]
    assert path.stat().st_size == len(content), "whole, though the order of its metadata is left to chance"


def test_a_file_of_something_else_is_made_again(cache: Path) -> None:
    expected, (path,) = tags(), files(cache)
    size = path.stat().st_size
    path.unlink()
    path.write_bytes(_empty())
    forget()
    assert tags() == expected and path.stat().st_size == size


def _empty() -> bytes:
    """A complete safetensors file without tensors."""
    header = json.dumps({"__metadata__": {"outline": "{}"}}).encode()
    return len(header).to_bytes(8, "little") + header


def test_without_a_cache_it_only_takes_longer(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tags()
    for path in files(cache):
        path.unlink()

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zgul.tagging.prepared.write_model", full)
    forget()
    assert tags() == expected and not files(cache)


def test_settings_and_pickles_need_no_weights(cache: Path) -> None:
    tags()
    forget()
    tagger = load_shipped("fo-pos")
    rough = load_shipped("fo-pos", precision="auto")
    changed = tagger.changed(decode="sequence", em={})
    data = pickle.dumps(changed)
    assert len(data) < 20_000
    again = pickle.loads(data)
    assert isinstance(again, ShippedTagger) and again.decode == "sequence" and dict(again.em) == {}
    assert not any("model" in vars(one) for one in (tagger, rough, changed, again))
    models = in_threads(lambda number: rough.model, count=4)
    assert all(model is tagger.model for model in models)
    assert tagger.inferring[0] is rough.inferring[0] is not tagger.model, "it stays prepared"
    assert replace(tagger, decode="sequence").inferring[0] is tagger.model, "which may be another model"


def test_another_weight_has_another_file(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "adapters.safetensors"):
        (tmp_path / name).write_text("one")
    (tmp_path / "delta").mkdir()
    (tmp_path / "delta" / "delta.json").write_text(json.dumps({"base": str(tmp_path)}))
    folders = (tmp_path, tmp_path / "delta")
    seen = {prepared_file(folder) for folder in folders}
    (tmp_path / "model.safetensors").write_text("two")
    seen |= {prepared_file(folder) for folder in folders}
    (tmp_path / "delta" / "delta.safetensors").write_text("one")
    assert len(seen | {prepared_file(folders[1])}) == 5


TAG = f"import zgul; print(zgul.load('fo').tag({TEXT!r}).to_conllu())"


def test_two_processes_may_make_it_at_once(cache: Path) -> None:
    environment = {**os.environ, "ZGUL_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    start = [subprocess.Popen([sys.executable, "-c", TAG], stdout=subprocess.PIPE, env=environment) for _ in range(2)]
    outputs = [process.communicate()[0] for process in start]
    assert [process.returncode for process in start] == [0, 0] and outputs[0] == outputs[1] != b""
    assert len(files(cache)) == 1 and not list(cache.glob(".*.tmp"))
    third = subprocess.run([sys.executable, "-c", TAG], stdout=subprocess.PIPE, env=environment, check=True)
    assert third.stdout == outputs[0]
