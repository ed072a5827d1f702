"""Which tagger serves a language, and what happens when it is not there."""

import subprocess
import sys
from pathlib import Path

import pytest

from zgul.errors import ZgulError
from zgul.languages import GROUPS, SOURCES
from zgul.tagging import shipped


@pytest.mark.parametrize("group", GROUPS.values(), ids=lambda group: group.name)
def test_targets_and_sources_are_served_by_their_group(group) -> None:
    for code in (*group.targets, *group.sources[1:]):
        served = shipped.serving(code, group.task)
        assert served.name == f"{group.name}-{group.task}"
        assert served.group == group.name
        assert served.warning is None


def test_the_other_task_comes_from_all_sources_and_says_on_what_it_rests(taggers: Path) -> None:
    served = shipped.serving("fo", "ner")
    assert (served.name, served.group, served.warning) == ("all-ner", "germanic", None)
    assert "rests on English, Amharic, Swahili" in served.reason


def test_a_language_outside_every_group_comes_with_a_warning(taggers: Path) -> None:
    served = shipped.serving("Finnish", "pos")
    assert (served.name, served.group) == ("all-pos", None)
    assert served.warning is not None
    assert "Finnish (fi)" in served.warning
    assert "rests on English, Icelandic, German, Russian, Czech" in served.warning


@pytest.mark.parametrize("task", ["pos", "ner"])
def test_where_several_groups_are_equally_near_none_of_them_serves(taggers: Path, task: str) -> None:
    for code in ("fr", "br", "el"):
        served = shipped.serving(code, task)
        assert served.name == f"all-{task}" and served.warning is not None
        assert "shares only Indo-European with several groups" in served.warning
    assert shipped.serving("lt", "pos").name == "slavic-pos"  # Balto-Slavic
    assert shipped.serving("nl", "pos").warning is None


def test_taggers_are_loaded_once_and_read_the_shipped_bank(taggers: Path) -> None:
    tagger = shipped.tagger("gsw", "pos")
    assert tagger is shipped.tagger("fo", "pos")
    assert tagger.model.bank is not None
    assert tagger.model.bank.languages == ["en", "is", "de"]


def test_adapters_come_in_the_order_asked_for(taggers: Path) -> None:
    assert [adapter.language for adapter in shipped.adapters(["ur", "en"])] == ["ur", "en"]
    assert [adapter.language for adapter in shipped.adapters(SOURCES)] == list(SOURCES)
    with pytest.raises(ZgulError, match="no language adapter for fi"):
        shipped.adapters(["en", "fi"])


def test_what_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path))
    assert shipped.names() == []
    with pytest.raises(ZgulError, match=r'"germanic-pos" is not there.*--model FOLDER'):
        shipped.tagger("fo", "pos")
    with pytest.raises(ZgulError, match=r"adapters\.safetensors: the shipped language adapters are not there"):
        shipped.adapters(["en"])
    assert "all source languages" in shipped.serving("fo", "ner").reason


def test_unknown_tasks_are_refused() -> None:
    with pytest.raises(ZgulError, match="unknown task 'chunk'"):
        shipped.serving("fo", "chunk")


@pytest.mark.parametrize("module", ["zgul", "zgul.tagging.shipped", "zgul.tagging.results", "zgul.tagging.langid"])
def test_no_torch_is_needed_to_ask(module: str) -> None:
    code = f"import sys, {module}; sys.exit(any(name in sys.modules for name in ('torch', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_public_names() -> None:
    import zgul

    for name in zgul.__all__:
        assert getattr(zgul, name).__module__.startswith(("zgul.tagging", "zgul.errors"))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = zgul.nothing  # type: ignore[attr-defined]
