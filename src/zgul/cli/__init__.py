"""The command line. Thin: each command parses, calls the library and prints.

Heavy imports (torch, transformers) happen inside the commands, so that ``zgul --help`` stays quick.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from zgul.errors import ZgulError, ZgulWarning

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Commands(TyperGroup):
    """All commands. What ends one early is met here, because typer itself would end it without a word, or as failed."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where what goes wrong can still be told
        except KeyboardInterrupt as stop:
            print(": ".join(["zgul: stopped", *map(str, stop.args)]), file=sys.stderr)
            raise typer.Exit(130) from stop
        except BrokenPipeError as error:  # as in `zgul tag … | head`: who reads has had enough
            _drop_output()
            raise typer.Exit(0) from error
        except SystemExit as stop:
            if isinstance(stop.__context__, BrokenPipeError):  # rich ends the program by itself
                raise typer.Exit(0) from stop
            raise
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            _drop_output()
            raise ZgulError(f"{error.filename or 'the output'} cannot be written ({error.strerror})") from error
        return result


def _drop_output() -> None:
    """Let what is still buffered go nowhere: at the end Python would try, and fail, to write it once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="zgul",
    cls=_Commands,
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
        data_command,
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

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        if issubclass(category, ZgulWarning):
            print(f"zgul: warning: {message}", file=sys.stderr)

    warnings.showwarning = show  # type: ignore[assignment]
    try:
        _register()
        app(standalone_mode=True)
    except ZgulError as error:
        print(f"zgul: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # before a command had begun
        print("zgul: stopped", file=sys.stderr)
        sys.exit(130)
