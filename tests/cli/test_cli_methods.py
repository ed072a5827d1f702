"""``zgul methods``: the numbers are counted, and they are the paper's."""

import json

import pytest
from typer.testing import CliRunner

from zgul.cli import app
from zgul.methods import METHODS, MethodOptions
from zgul.methods.sizes import RELEASE_FORMS, count_parameters
from zgul.paper.method_descriptions import describe_methods
from zgul.paper.numbers import COST
from zgul.paper.rows import ROWS, TARGET_ADAPTER, TARGET_ENCODER

PRINTED = {title: COST.get(title, "parameters") for title in ("SFT-M", "CPG", "ZGUL")}


def million(name: str, **options: object) -> float:
    return count_parameters(METHODS[name], MethodOptions(**options)).trainable / 1e6  # type: ignore[arg-type]


def test_trainable_parameters_are_the_papers() -> None:
    """The paper prints one number for ZGUL, 41M: that of the release's Germanic form, which is also the largest."""
    assert million("sft-m") == pytest.approx(PRINTED["SFT-M"], rel=0.005)
    assert million("sft-en") == million("sft-m")
    assert million("cpg") == pytest.approx(PRINTED["CPG"], rel=0.02)
    germanic = RELEASE_FORMS["Germanic"]
    assert count_parameters(METHODS["zgul"], germanic).trainable / 1e6 == pytest.approx(PRINTED["ZGUL"], rel=0.02)
    assert round(count_parameters(METHODS["zgul"], germanic).trainable / 1e6) == PRINTED["ZGUL"]


def test_the_table_and_the_json_name_every_method() -> None:
    shown = CliRunner().invoke(app, ["methods"])
    assert shown.exit_code == 0
    rows = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)
    assert [row["name"] for row in rows] == list(METHODS)
    for row in rows:
        assert row["name"] in shown.stdout and f"{row['trainable_parameters'] / 1e6:.1f}M" in shown.stdout
    assert "Germanic 40.8M; African, Indo-Aryan 40.2M; Slavic 26.0M" in shown.stdout
    assert {row["title"]: row["in_the_paper"] for row in rows if row["in_the_paper"]} == PRINTED
    titles = [line["title"] for row in rows for line in row["rows"]]
    assert titles == [row.title for method in METHODS for row in ROWS if row.method == method]
    assert all(title in shown.stdout for title in titles)


def test_methods_are_described_from_python() -> None:
    described = {method.name: method for method in describe_methods()}
    assert list(described) == list(METHODS)
    assert described["sft-en"].trained_on == "English" and described["sft-m"].frozen == ()
    assert described["zgul"].strategies[0] == "em" and set(described["zgul"].in_the_release) == set(RELEASE_FORMS)
    for method in described.values():
        assert all(row.strategy in method.strategies for row in method.rows)


def test_rows_with_text_of_the_target_say_what_they_need() -> None:
    needs = {row.title: tuple(row.needs) for method in describe_methods() for row in method.rows}
    assert needs["MADX^multi-Tgt"] == (TARGET_ADAPTER,)
    assert needs["SFT++"] == (TARGET_ENCODER,)
    assert needs["ZGUL++"] == (TARGET_ENCODER, TARGET_ADAPTER)
    assert needs["ZGUL"] == ()
