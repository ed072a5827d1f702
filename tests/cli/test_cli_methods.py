"""``zgul methods``: the numbers are counted, and they are the paper's."""

import json

import pytest
from typer.testing import CliRunner

from zgul.cli import _register, app
from zgul.methods import METHODS, MethodOptions
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
    ways = {title for row in rows for title in row["paper"].values()}
    assert {"SFT-En", "MADX-EMEA", "MADX^multi-Uniform", "CPG", "ZGUL", "ZGUL w/o EM", "ZGUL w/o F"} <= ways
