"""The command line. Each command is a module that is imported when the command is called, and not before."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
import time
import traceback
import warnings
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from zgul import __version__
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import cache_dir

# Name -> module, what the list of commands says.
COMMANDS = {
    "tag": ("tag_command", "Tag text: parts of speech, named entities, or both."),
    "languages": ("languages_command", "Show who a language is, what serves it, what accuracy to expect."),
    "relate": ("relate_command", "Show how related languages are."),
    "evaluate": ("evaluate_command", "Score a tagger on labelled text."),
    "export": ("export_command", "Write a tagger as ONNX, to be run without zgul."),
    "train": ("train_command", "Train a tagger on source languages."),
    "adapter": ("adapter_command", "Train language adapters from raw text."),
    "data": ("data_command", "List, fetch and describe data sets."),
    "methods": ("methods_command", "Show every method of the paper."),
    "experiment": ("experiment_command", "Run the paper's experiments."),
    "report": ("report_command", "Write the report on the experiments."),
    "compare": ("compare_command", "Compare two systems: bootstrap and McNemar's test."),
}
SETTINGS = {"help_option_names": ["-h", "--help"]}
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def new_app(help: str | None = None) -> typer.Typer:
    """An app for a command's module, with the settings that all commands share."""
    return typer.Typer(
        help=help,
        no_args_is_help=help is not None,
        add_completion=False,
        rich_markup_mode="markdown",
        context_settings=SETTINGS,
    )


class LazyCommand(TyperCommand):
    """A command that is imported when it is called. The list of commands needs its help text alone."""

    def __init__(self, name: str) -> None:
        self.module, text = COMMANDS[name]
        super().__init__(name, help=text)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        command = typer.main.get_command(importlib.import_module(f"zgul.cli.{self.module}").app)
        return command.make_context(info_name, args, parent, **extra)


class Commands(TyperGroup):
    """All commands. What ends one early is handled here, because typer would end it silently, or as failed."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return LazyCommand(cmd_name) if cmd_name in COMMANDS else None

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a problem can still be reported
        except KeyboardInterrupt as stop:
            print(": ".join(["zgul: stopped", *map(str, stop.args)]), file=sys.stderr)
            raise typer.Exit(130) from stop
        except BrokenPipeError as error:  # as in `zgul tag … | head`: the reader has had enough
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
            raise ZgulError(f"{error.filename or 'The output'} cannot be written ({error.strerror}).") from error
        return result


def _drop_output() -> None:
    """Discard what is still buffered. Python would try, and fail, to write it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="zgul",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Tag text in languages that no pretrained model has seen.",
    context_settings=SETTINGS,
)


def _show_version(value: bool) -> None:
    if value:
        print(f"zgul {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    pass


def main() -> None:
    """Entry point. A user's mistake becomes one clear line and exit code 2; our own a line and a report."""
    _open_closed_streams()
    warnings.showwarning = _show_warning
    signal.signal(signal.SIGTERM, _stop)  # ends like Ctrl-C: what is finished is kept
    try:
        app(standalone_mode=True)
    except ZgulError as error:
        print(f"zgul: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # before a command had begun
        print("zgul: stopped", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if os.environ.get("ZGUL_DEBUG"):
            raise
        print(f"zgul: this should not have happened: {_one_line(error)}. {_report(error)}", file=sys.stderr)
        sys.exit(1)


def _open_closed_streams() -> None:
    """Give standard streams that the caller closed (``<&-``) a place to go."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, ZgulWarning):
        print(f"zgul: warning: {message}", file=sys.stderr)


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def _report(error: Exception) -> str:
    """Write the traceback to a file; say where it is."""
    path = cache_dir() / "errors" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = traceback.format_exception(error)
        path.write_text(f"zgul {__version__}\n{' '.join(sys.argv)}\n\n{''.join(lines)}", encoding="utf-8")
    except OSError:
        return "Set ZGUL_DEBUG=1 to see the traceback."
    return f"The traceback is in {path}."
