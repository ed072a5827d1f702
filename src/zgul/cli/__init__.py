"""The command line. Each command is a module, which is imported only when the command is called.

``commands.toml`` lists the commands, with a short help text, main options and examples for each.
"""

import contextlib
import errno
import gc
import importlib
import io
import os
import signal
import sys
import time
import tomllib
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from zgul import __version__
from zgul.cli.completion import light_command
from zgul.cli.help_pages import HELP_NAMES, lay_out, plain_flags
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import cache_dir

COMMANDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def new_app(help: str | None = None, **settings: Any) -> typer.Typer:
    """An app with the settings that all commands share. ``help`` is for groups of commands."""
    settings.setdefault("add_completion", False)
    settings["rich_markup_mode"] = "markdown"
    return typer.Typer(help=help, no_args_is_help=help is not None, context_settings=HELP_NAMES, **settings)


class LazyCommand(TyperCommand):
    """A command that is imported when it is called. The list of commands only needs its help text."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if extra.get("resilient_parsing") and (light := light_command(str(self.name), new_app)):  # the tab key
            return light.make_context(info_name, args, parent, **extra)
        gc.disable()  # imports make many objects and hardly any garbage: torch's take a fifth less time
        try:
            module = importlib.import_module(f"zgul.cli.{self.name}_command")
        finally:
            gc.enable()
        command = typer.main.get_command(module.app)
        lay_out(command, str(self.name), COMMANDS)
        return command.make_context(info_name, args, parent, **extra)


class Commands(TyperGroup):
    """All commands. typer would hide the cause of Ctrl-C, a closed pipe and a full disk, so they are handled here."""

    def get_params(self, ctx: Any) -> list[Any]:
        return plain_flags(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, about in COMMANDS.items() if "help" in about]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        known = cmd_name in self.list_commands(ctx)
        about = COMMANDS.get(cmd_name, {})
        return LazyCommand(cmd_name, help=about["help"], rich_help_panel=about.get("panel")) if known else None

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        with _plain_endings():  # --help and --version print here
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        with _plain_endings():
            return super().invoke(ctx)


@contextlib.contextmanager
def _plain_endings() -> Iterator[None]:
    """End with a message that a user understands."""
    try:
        try:
            yield
        except typer.Exit:
            sys.stdout.flush()
            raise
        sys.stdout.flush()  # here, where a problem can still be reported
    except KeyboardInterrupt as stop:
        print(": ".join(["zgul: stopped", *map(str, stop.args)]), file=sys.stderr)
        raise typer.Exit(130) from stop
    except (BrokenPipeError, SystemExit) as stop:  # the reader of the pipe stopped, as in `zgul tag … | head`
        if not isinstance(stop, BrokenPipeError) and not isinstance(stop.__context__, BrokenPipeError):
            raise
        _drop_output()  # rich turns the error into SystemExit
        raise typer.Exit(0) from stop
    except OSError as error:
        if error.errno in _NO_ROOM:
            _drop_output()
        elif error.filename is None:
            raise
        name = error.filename or "The output"
        raise ZgulError(f"{name} cannot be read or written ({error.strerror}).") from error


def _drop_output(stream: Any = None) -> None:
    """Discard buffered output. Python would try to write it at exit, and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


class _Messages(io.TextIOWrapper):
    """Standard error. If nobody can read it any more, as in ``zgul train 2>&1 | head``, the work still goes on."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            _drop_output(self)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            _drop_output(self)


app = new_app("Tag text in languages without labelled data.", name="zgul", cls=Commands, add_completion=True)


def _show_version(value: bool) -> None:
    if value:
        print(f"zgul {__version__}")
        raise typer.Exit


_version = typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")


@app.callback()
def _root(version: Annotated[bool, _version] = False) -> None:
    pass


def main() -> None:
    """Entry point. A user's mistake prints one line and exits with code 2. A bug also saves its traceback."""
    # replace standard streams that the caller closed (``<&-``)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: PTH123, SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # letters that the screen lacks, and names that are no UTF-8
        sys.stdout.reconfigure(
            errors="surrogateescape" if sys.stdout.encoding.lower() == "utf-8" else "backslashreplace"
        )
    if sys.stderr is sys.__stderr__ and isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _Messages(sys.stderr.buffer, sys.stderr.encoding, "backslashreplace", line_buffering=True)
    warnings.showwarning = _show_warning
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: finished work is kept
    try:
        app(standalone_mode=True)
    except ZgulError as error:
        print(f"zgul: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # before a command had begun
        print("zgul: stopped", file=sys.stderr)
        sys.exit(130)
    except BaseException as error:  # a panic in Rust code is no Exception
        if isinstance(error, SystemExit) and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            # torchrun started this process. Threads of Gloo may abort it while Python shuts down, so end it at once.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(error.code if isinstance(error.code, int) else 0)
        if os.environ.get("ZGUL_DEBUG") or isinstance(error, SystemExit):
            raise
        cause = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        print(f"zgul: internal error: {cause}. {_save_traceback(error)} Please report it.", file=sys.stderr)
        sys.exit(1)
    finally:
        gc.freeze()  # Python would look for garbage among all of torch's objects before it ends


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, ZgulWarning):
        print(f"zgul: warning: {message}", file=sys.stderr)


def _save_traceback(error: BaseException) -> str:
    """Write the traceback to a file, and return a sentence that says where it is."""
    path = cache_dir() / "errors" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = traceback.format_exception(error)
        path.write_text(f"zgul {__version__}\n{' '.join(sys.argv)}\n\n{''.join(lines)}", encoding="utf-8")
    except OSError:
        return "Set ZGUL_DEBUG=1 to see the traceback."
    return f"The traceback is in {path}."
