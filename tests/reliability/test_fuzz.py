"""The fuzzer finds nothing in a few cases of each target, and it notices every kind of failure."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from reliability.cases import Case
from reliability.targets import TARGETS

from reliability import fuzz, strange

FEW = {"readers": 200, "segmenter": 200, "configurations": 200, "folders": 100, "requests": 100}


@pytest.fixture(scope="module")
def guard() -> fuzz.Guard:
    return fuzz.Guard()  # stays in the process, so there is one


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_cases_of_each_target(
    name: str, guard: fuzz.Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())  # targets set what their process needs
    os.environ["ZGUL_CACHE"] = str(tmp_path / "cache")
    target = TARGETS[name](tmp_path / "valid")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(FEW[name]):
            case = Case(name, 7, number, tmp_path / "cases" / str(number))
            case.folder.mkdir(parents=True)
            fuzz.run_case(target, case, guard)


@pytest.mark.slow
def test_every_kind_of_failure_is_noticed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "HANG", 2.0)
    outcome = fuzz.fuzz("faulty", 10, workers=1, keep=tmp_path)
    assert (outcome.cases, outcome.accepted, outcome.refused, outcome.failed) == (10, 2, 1, 7)
    problems = {int(case.split(":")[2]): problem for case, problem in outcome.failures.items()}
    expected = {2: "KeyError: 'a traceback'", 3: "words out ['c'], words in ['b'], at 1", 4: "subprocess.Popen"}
    expected |= {5: "code was run: writes", 6: "MemoryError", 7: "exit code -11", 8: "no end after 2 seconds"}
    assert problems.keys() == expected.keys()
    assert not [number for number, text in expected.items() if text not in problems[number]], problems
    assert "fuzz --case faulty:0:3" in (tmp_path / "faulty-0-3" / "problem.txt").read_text()


def test_a_case_is_its_name_alone() -> None:
    first, again = (Case("readers", 0, 4711, Path("x")).random for _ in range(2))
    assert strange.text(first) == strange.text(again)
    assert strange.damage(first, b"some bytes") == strange.damage(again, b"some bytes")
