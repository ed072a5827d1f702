"""Command-line options that are generated from dataclasses."""

from dataclasses import dataclass
from typing import Any

import typer
from typer.testing import CliRunner

from zgul.cli.option_signature import with_options
from zgul.options import Options, option


@dataclass(frozen=True)
class Noise(Options):
    share: float = option(0.25, "Share of the sentences.", least=0)


@dataclass(frozen=True)
class Config(Options):
    method: str = option("zgul", "What to train.", panel="What")
    sources: tuple[str, ...] = option((), "Languages with commas.")
    fast: bool = option(False, "A switch.")
    seed: int = option(0, "Random seed.")
    epochs: int = option(0, "Rounds [default: 5].")
    noise: Noise = option(Noise(), "Noise.")


def run(*arguments: str) -> tuple[dict[str, Any], str]:
    app, seen = typer.Typer(rich_markup_mode="markdown"), {}

    @app.command()
    @with_options(Config, skip=("fast",), flags={"noise.share": "--noise"})
    def command(given: dict[str, Any], output: str = "out") -> None:
        seen.update(given=given, output=output)

    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return seen, result.output


def test_only_what_was_given_arrives() -> None:
    assert run()[0] == {"given": {}, "output": "out"}
    seen, _ = run("--method", "cpg", "--noise", "0.5", "--sources", "en,is", "--output", "x", "--epochs", "3")
    assert seen == {
        "given": {"method": "cpg", "noise": {"share": 0.5}, "sources": "en,is", "epochs": 3},
        "output": "x",
    }
    assert Config.from_dict(seen["given"]) == Config("cpg", ("en", "is"), epochs=3, noise=Noise(0.5))


def test_help_comes_from_the_declaration() -> None:
    _, text = run("--help")
    assert "What to train. [default: zgul]" in text and "Share of the sentences. [default: 0.25]" in text
    assert "Rounds [default: 5]." in text and "--fast" not in text
    assert "Random seed. [default: 0]" in text, "zero is a default like others"
