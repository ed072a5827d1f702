"""``zgul methods``: the numbers are counted, and they are the paper's."""

import json

import pytest
from typer.testing import CliRunner

from zgul.cli import _register, app
from zgul.methods import METHODS, ROWS, TARGET_ADAPTER, TARGET_ENCODER, MethodOptions
from zgul.methods.sizes import sizes

_register()


def million(name: str, **options: object) -> float:
    return sizes(METHODS[name], MethodOptions(**options)).trainable / 1e6  # type: ignore[arg-type]


def test_trainable_parameters_are_the_papers() -> None:
    assert million("sft-m") == pytest.approx(177, rel=0.005)
    assert million("sft-en") == million("sft-m")
    assert million("zgul", features="all") == pytest.approx(41, rel=0.02)
    assert million("cpg") == pytest.approx(253, rel=0.02)


def test_the_releases_variants() -> None:
    assert million("zgul", features="all", l_scores="additive") == pytest.approx(40.8, abs=0.05)
    assert million("zgul", features="all", combine="max") == pytest.approx(26.0, abs=0.05)


def test_what_is_trained_is_what_asks_for_gradients() -> None:
    zgul = sizes(METHODS["zgul"])
    assert set(zgul.frozen) == {"encoder", "language adapters"}
    width, depth = 768, 12
    assert zgul.trained["C"] == depth * (2 * width * width + width)
    assert zgul.trained["W_v"] == depth * width * width
    assert (
        "W_L" not in sizes(METHODS["zgul-no-l"]).trained
        and "language vectors" not in sizes(METHODS["zgul-no-l"]).trained
    )
    assert "W_q, W_k" not in sizes(METHODS["zgul-no-f"]).trained
    little = sizes(METHODS["zgul"], MethodOptions(encoder_rank=4)).trained
    assert little["encoder"] > 0, "a little encoder training is counted"
    assert sizes(METHODS["zgul"], hidden_size=384, intermediate_size=1536).trainable < zgul.trainable / 3


def test_the_table_and_the_json_name_every_method() -> None:
    shown = CliRunner().invoke(app, ["methods"])
    assert shown.exit_code == 0
    rows = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)
    assert [row["name"] for row in rows] == list(METHODS)
    for row in rows:
        assert row["name"] in shown.stdout and f"{row['trainable_parameters'] / 1e6:.1f}M" in shown.stdout
    titles = [line["title"] for row in rows for line in row["rows"]]
    assert sorted(titles) == sorted(row.title for row in ROWS) and len(set(titles)) == len(titles)
    assert all(title in shown.stdout for title in titles)


def test_rows_with_text_of_the_target_say_what_they_need() -> None:
    needs = {row.title: row.needs for row in ROWS}
    assert needs["MADX^multi-Tgt"] == (TARGET_ADAPTER,) == needs["ZGUL++ w/o mBERT^tgt"]
    assert needs["SFT++"] == (TARGET_ENCODER,) == needs["ZGUL++ w/o Tgt. LA"]
    assert needs["ZGUL++"] == (TARGET_ENCODER, TARGET_ADAPTER)
    zgul = next(
        row for row in json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout) if row["name"] == "zgul"
    )
    assert {"title": "ZGUL++", "strategy": "em", "needs": [TARGET_ENCODER, TARGET_ADAPTER]} in zgul["rows"]
    assert {"title": "ZGUL", "strategy": "em", "needs": []} in zgul["rows"]
