"""The command line. Thin: each command parses, calls the library and prints.

Heavy imports (torch, transformers) happen inside the commands, so that ``zgul --help`` stays quick.
"""

from __future__ import annotations

import sys
import warnings

import typer

from zgul.errors import ZgulError, ZgulWarning

app = typer.Typer(
    name="zgul",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Tag text in languages that no pretrained model has seen.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        from zgul import __version__

        print(f"zgul {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    pass


def _register() -> None:
    """Each module adds its commands to ``app`` when imported."""
    from zgul.cli import (  # noqa: F401
        adapter,
        compare,
        data,
        evaluate,
        experiment,
        export,
        languages,
        methods,
        report,
        tag,
        train,
    )


def main() -> None:
    """Entry point: user errors become one clear line and exit code 2."""
    _register()

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        if issubclass(category, ZgulWarning):
            print(f"zgul: warning: {message}", file=sys.stderr)

    warnings.showwarning = show  # type: ignore[assignment]
    try:
        app(standalone_mode=True)
    except ZgulError as error:
        print(f"zgul: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("zgul: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
