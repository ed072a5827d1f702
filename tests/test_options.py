"""Options are declared once: conversion, limits, groups, YAML."""

import gzip
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from zgul.errors import ZgulError
from zgul.options import Options, option, read_yaml


@dataclass(frozen=True)
class Inner(Options):
    share: float = option(0.5, "A share.", least=0, most=1)
    edits: int = option(1, "A count.", least=1)


@dataclass(frozen=True)
class Outer(Options):
    rate: float = option(1e-4, "A rate.", above=0)
    mode: str = option("a", "A choice.", choices=("a", "b"))
    names: tuple[str, ...] = option((), "Some names.")
    sizes: tuple[int, ...] = option((1, 2), "Some sizes.")
    loud: bool = option(False, "A switch.")
    inner: Inner = option(Inner(), "A group.")


def test_values_are_converted_to_the_type_of_their_default() -> None:
    made = Outer.from_dict(
        {"rate": "1e-3", "names": "en, is,", "sizes": ["3"], "loud": True, "inner": {"share": 1, "edits": 2.0}}
    )
    assert made == Outer(rate=1e-3, names=("en", "is"), sizes=(3,), loud=True, inner=Inner(1.0, 2))
    assert isinstance(made.inner.share, float) and isinstance(made.inner.edits, int)
    assert Outer.from_dict(made.to_dict()) == made


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate": 0}, "rate must be above 0, not 0"),
        ({"rate": float("nan")}, "rate must be above 0"),
        ({"rate": True}, "rate must be a number, not True"),
        ({"mode": "c"}, "mode is one of a, b, not 'c'"),
        ({"loud": "yes"}, "loud must be true or false"),
        ({"inner": {"share": 2}}, "share must be at least 0 and at most 1, not 2"),
        ({"inner": {"edits": 1.5}}, "inner.edits must be a whole number"),
        ({"inner": 3}, "inner is a group of options, such as inner.share"),
        ({"inner": {"shares": 1}}, "Did you mean 'inner.share'?"),
        ({"x": 1}, "There is no option 'x'. Known options: rate, mode"),
        ({"sizes": "1,two"}, "sizes must be a whole number, not 'two'"),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, object], message: str) -> None:
    with pytest.raises(ZgulError) as error:
        Outer.from_dict(values)
    assert message in str(error.value)


def test_yaml_is_read_back(tmp_path: Path) -> None:
    made = Outer(rate=3e-5, names=("fo",), inner=Inner(0.25))
    made.save(tmp_path / "run.yaml")
    assert Outer.from_dict(read_yaml(tmp_path / "run.yaml")) == made


@pytest.mark.parametrize(
    "text",
    ["a: !!int ''\n", "a: !!bool x\n", "a: !!float ''\n", "a: !!timestamp x\n", 'a: "\\UFFFFFFFF"\n', 'a: "\\ud800"\n']
    + [f"a: 0x{'f' * 5000}\n", "a: 1" + ":1" * 5000, f"a: [{'1, ' * 300_000}]", "a: [1\n  b: 2\n"]
    + ["- a\n", "1: 2\n", "a: [\n", "a: !!int abc\n", "seed: 2001-99-99\n", "a: &x [1]\nb: *x\n", "[" * 5000, "\x00"],
)
def test_damaged_yaml_is_an_error_of_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ZgulError, match=r"run\.yaml") as caught:
        read_yaml(path)
    assert "\n" not in str(caught.value)


def test_packed_yaml_is_not_unpacked_without_limit(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml.gz"
    path.write_bytes(gzip.compress(b"a: " + b"x" * 50_000_000))
    with pytest.raises(ZgulError, match="larger than 30,000 bytes"):
        read_yaml(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ZgulError, match=r"run\.yaml"):
        read_yaml(path)


def test_whole_numbers_of_any_size_are_compared() -> None:
    with pytest.raises(ZgulError, match="edits must be at least 1"):
        Outer.from_dict({"inner": {"edits": -(10**400)}})
    assert Inner(edits=10**400).edits == 10**400


def test_nested_aliases_are_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(ZgulError, match="aliases"):
        read_yaml(path)


def test_strange_letters_are_saved_and_read_back(tmp_path: Path) -> None:
    made = Outer.from_dict({"names": ["a\x85b", "føroyskt", "\u2028", "\U000d5789"]})
    made.save(tmp_path / "a.yaml")
    assert Outer.from_dict(read_yaml(tmp_path / "a.yaml")) == made


@dataclass(frozen=True)
class Listed(Options):
    rates: tuple[float, ...] = option((0.5,), "Some rates.", least=0)


def test_a_list_of_numbers_is_checked_one_by_one() -> None:
    with pytest.raises(ZgulError, match="rates must be at least 0, not nan"):
        Listed.from_dict({"rates": [1.0, float("nan")]})


def test_a_whole_number_of_400_digits_is_a_number() -> None:
    assert Inner.from_dict({"edits": 10**400}).edits == 10**400
    with pytest.raises(ZgulError, match="edits must be at least 1"):
        Inner.from_dict({"edits": -(10**400)})


@pytest.mark.parametrize("value", ["!!timestamp x", "!!bool x", "!!omap [a]", "[" * 3000])
def test_yaml_that_only_looks_like_yaml(value: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"lr: {value}\n")
    began = time.process_time()
    with pytest.raises(ZgulError, match="is not valid YAML"):
        read_yaml(tmp_path / "a.yaml")
    assert time.process_time() - began < 1
