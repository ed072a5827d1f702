"""Which tagger serves a language. None of this needs torch."""

import subprocess
import sys
from pathlib import Path

import pytest

import zgul
from zgul.adapters.storage import shipped_adapters
from zgul.errors import ZgulError
from zgul.languages import GROUPS, SOURCES
from zgul.tagging.serving import serving, shipped_config, shipped_names


@pytest.mark.parametrize("group", GROUPS.values(), ids=lambda group: group.name)
def test_targets_and_sources_are_served_by_their_group(group) -> None:
    for code in (*group.targets, *group.sources[1:]):
        served = serving(code, group.task, adapted=False)
        assert served.name == f"{group.name}-{group.task}"
        assert served.group == group.name
        assert served.warning is None


def test_the_other_task_comes_from_all_sources_and_says_on_what_it_rests(taggers: Path) -> None:
    served = serving("fo", "ner")
    assert (served.name, served.group, served.warning) == ("all-ner", "germanic", None)
    assert "learnt from English, Amharic, Swahili" in served.reason


def test_a_language_outside_every_group_comes_with_a_warning(taggers: Path) -> None:
    served = serving("Finnish", "pos")
    assert (served.name, served.group) == ("all-pos", None)
    assert served.warning is not None
    assert "Finnish (fi)" in served.warning
    assert "learnt from English, Icelandic, German, Russian, Czech" in served.warning


@pytest.mark.parametrize("task", ["pos", "ner"])
def test_where_several_groups_are_equally_near_none_of_them_serves(taggers: Path, task: str) -> None:
    for code in ("fr", "br", "el"):
        served = serving(code, task)
        assert served.name == f"all-{task}" and served.warning is not None
        assert "shares only Indo-European with several groups" in served.warning
    assert serving("lt", "pos").name == "slavic-pos"  # Balto-Slavic
    assert serving("nl", "pos").warning is None


def test_adapters_come_in_the_order_asked_for(taggers: Path) -> None:
    assert [adapter.language for adapter in shipped_adapters(["ur", "en"])] == ["ur", "en"]
    assert [adapter.language for adapter in shipped_adapters(SOURCES)] == list(SOURCES)
    with pytest.raises(ZgulError, match="fi"):
        shipped_adapters(["en", "fi"])


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path))
    assert shipped_names() == [] and shipped_config("germanic-pos") == {}
    with pytest.raises(ZgulError, match=r"adapters\.safetensors: the shipped language adapters are missing"):
        shipped_adapters(["en"])
    assert "all source languages" in serving("fo", "ner").reason
    (tmp_path / "all-ner").mkdir()
    (tmp_path / "all-ner" / "config.json").write_text("{")
    with pytest.raises(ZgulError, match="not valid JSON"):
        shipped_config("all-ner")


def test_unknown_tasks_are_refused() -> None:
    with pytest.raises(ZgulError, match="no task 'chunk'"):
        serving("fo", "chunk")


LIGHT = ["serving", "documents", "langid", "reading", "display"]


@pytest.mark.parametrize("module", ["zgul", *(f"zgul.tagging.{name}" for name in LIGHT)])
def test_no_torch_is_needed_to_ask(module: str) -> None:
    code = f"import sys, {module}; sys.exit(any(name in sys.modules for name in ('torch', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_public_names() -> None:
    for name in zgul.__all__:
        assert getattr(zgul, name).__module__.startswith(("zgul.tagging", "zgul.adaptation", "zgul.errors"))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = zgul.nothing  # type: ignore[attr-defined]
