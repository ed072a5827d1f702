"""`zgul doctor` and the function behind it, on installations that are whole and on broken ones."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from standin import stand_in_taggers
from zgul.cli import app
from zgul.tagging.delta import Delta, save_delta
from zgul.tagging.diagnosis import Diagnosis, Finding, diagnose

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
sys.argv = ["zgul", "doctor", "--check"]
from zgul.cli import main
main()
"""


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_in_taggers(tmp_path_factory.mktemp("taggers"))


@pytest.fixture
def taggers(stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that a test may break."""
    folder = Path(shutil.copytree(stand_ins, tmp_path / "zgul" / "shipped"))
    monkeypatch.setenv("ZGUL_TAGGERS", str(folder))
    return folder


def finding(diagnosis: Diagnosis, name: str) -> Finding:
    (one,) = [one for one in diagnosis.findings if one.name == name]
    return one


def test_a_whole_installation_works() -> None:
    diagnosis = diagnose(check=True)
    assert diagnosis.works
    parts = list(dict.fromkeys(one.part for one in diagnosis.findings))
    assert parts == [
        *("Versions", "Devices", "Cache", "Encoder", "Taggers", "Data", "Extras", "Without a network", "Check")
    ]
    assert finding(diagnosis, "embedded").found.startswith("found, checksum right")
    assert "Hetta er ein" in finding(diagnosis, "tag a sentence").found
    assert all(one.advice for one in diagnosis.findings if not one.ok)


def test_a_check_that_fails_is_a_finding(taggers: Path) -> None:
    """The stand-ins do not know the script of the sentence."""
    diagnosis = diagnose(check=True)
    assert not diagnosis.works and diagnose().works
    assert "does not know the script" in finding(diagnosis, "tag a sentence").found


def test_the_command_exits_with_0_and_prints_json(taggers: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    printed = json.loads(result.stdout)
    assert result.exit_code == 0 and printed["works"] is True
    assert {"part", "name", "found", "ok", "needed", "advice"} == printed["findings"][0].keys()


@pytest.mark.parametrize("broken", ["missing", "truncated"])
def test_a_broken_tagger_is_named_with_what_to_do(taggers: Path, broken: str) -> None:
    weights = taggers / "slavic-pos" / "model.safetensors"
    if broken == "missing":
        weights.unlink()
    else:
        weights.write_bytes(weights.read_bytes()[:-10])
    result = CliRunner().invoke(app, ["doctor"])
    shown = " ".join(result.stdout.split())
    assert result.exit_code == 1
    assert "✗ slavic-pos" in shown and "ZGUL_TAGGERS" in shown
    assert "✓ germanic-pos" in shown and "Tagging does not work" in shown


def test_adapted_taggers_are_looked_at(taggers: Path) -> None:
    (taggers / "hsb-pos").mkdir()
    (taggers / "hsb-pos" / "delta.json").write_text("{}")
    found = finding(diagnose(), "hsb-pos")
    assert not found.ok and found.needed and found.found == "delta.safetensors missing"


def test_an_adapted_tagger_that_changes_nothing_is_complete(taggers: Path) -> None:
    folder = taggers / "hsb-pos"
    folder.mkdir()
    save_delta(folder, Delta("slavic-pos", "0", "hsb", "pos", {"head.bias": torch.zeros(3)}))
    found = finding(diagnose(), "hsb-pos")
    assert found.ok and found.found.startswith("complete") and not (folder / "delta.safetensors").exists()
    save_delta(folder, Delta("slavic-pos", "0", "hsb", "pos", {"head.bias": torch.ones(3)}))
    assert finding(diagnose(), "hsb-pos").ok
    (folder / "delta.safetensors").unlink()
    assert finding(diagnose(), "hsb-pos").found == "delta.safetensors missing"
    (folder / "delta.json").write_text("no JSON")
    assert not finding(diagnose(), "hsb-pos").ok


def test_checksums_of_the_installation_are_compared(taggers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, weights = taggers.parents[1], taggers / "all-pos" / "model.safetensors"
    digest = base64.urlsafe_b64encode(hashlib.sha256(weights.read_bytes()).digest()).decode().rstrip("=")
    about = root / "zgul-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: zgul\nVersion: 0.1.0\n")
    (about / "RECORD").write_text(f"zgul/shipped/all-pos/model.safetensors,sha256={digest},1\n")
    monkeypatch.syspath_prepend(root)
    assert finding(diagnose(), "all-pos").found.startswith("complete, checksums right")
    changed = bytearray(weights.read_bytes())
    changed[-1] ^= 1  # the file is as long as before
    weights.write_bytes(changed)
    assert finding(diagnose(), "all-pos").found == "damaged"


def test_a_cache_that_cannot_be_written(taggers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ZGUL_CACHE", str(tmp_path / "file" / "cache"))
    diagnosis = diagnose()
    assert not diagnosis.works
    assert "ZGUL_CACHE" in finding(diagnosis, "embedded").advice


def test_files_of_one_kind_in_the_cache_are_one_line(
    taggers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZGUL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    for number, checksum in enumerate(("0202a59cdab60eb0eaa2b1e3", "f1eca622c05c4a1b81b18a53"), start=1):
        (tmp_path / "cache" / f"tagger-{checksum}.safetensors").write_bytes(bytes(number * 1_000_000))
    assert finding(diagnose(), "tagger-….safetensors").found == "2 files, 3 MB"


def test_the_name_of_the_user_is_not_shown(taggers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ZGUL_CACHE", str(tmp_path / "cache"))
    (taggers / "all-pos" / "config.json").unlink()
    diagnosis = diagnose()
    assert "~/cache" in [one.name for one in diagnosis.findings]
    assert str(tmp_path) not in json.dumps(diagnosis.to_dict())


def test_without_torch_it_still_says_what_to_do() -> None:
    result = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False)
    assert result.returncode == 1 and result.stderr == ""
    assert "torch cannot be imported" in result.stdout and "Tagging does not work" in result.stdout
