"""Where a result comes from: checksums of data, encoder, adapters and code; the machine and the commit."""

import ast
import hashlib
import os
import platform
import subprocess
from functools import cache, partial
from pathlib import Path

import torch

import zgul
from zgul.adapters.storage import SHIPPED_ADAPTERS, check_places
from zgul.download import file_digest
from zgul.encoders.embedded import SHA256, SUFFIX, VERSION
from zgul.errors import ZgulError
from zgul.files import shipped_folder

ROOT = Path(zgul.__file__).parent
# Code that no run of an experiment executes.
NOT_RUN = ("adaptation/", "cli/", "cluster/", "serve/", "tagging/", "paper/report/")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def of_file(path: Path) -> str:
    """SHA-256 of a file."""
    return _of_file(path.resolve(), path.stat().st_mtime_ns, path.stat().st_size)


@cache
def _of_file(path: Path, changed: int, size: int) -> str:
    return file_digest(path)


def of_place(path: Path) -> str:
    """SHA-256 of a file, or over names and contents of a folder's files; "" if there is neither."""
    if not path.is_dir():
        return of_file(path) if path.is_file() else ""
    digest = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()} {of_file(file)}\n".encode())
    return digest.hexdigest()


def of_encoder(name: str) -> str:
    """Checksum of an encoder's weights and vocabulary; for one on the hub, its name."""
    if name == "embedded":
        return f"{SHA256}-{VERSION}"
    if name.endswith(SUFFIX) and not Path(name).exists():
        raise ZgulError(f"{name}: no such file")
    return of_place(Path(name)) or name


def of_adapters(places: str) -> str:
    """Checksum of the language adapters at one place or, separated by commas, several."""
    check_places(places)
    shipped, named = shipped_folder() / SHIPPED_ADAPTERS, [place.strip() for place in places.split(",")]
    paths = [shipped if place == "shipped" else Path(os.path.expanduser(place)) for place in named]  # noqa: PTH111
    return ",".join(of_place(path) or place for path, place in zip(paths, named, strict=True))


@cache
def of_code() -> str:
    """Checksum of all code that a run executes, and of the tables it reads. Comments and layout do not count."""
    digest = hashlib.sha256()
    for file in (*code_files(), *sorted(file for file in ROOT.rglob("*") if file.suffix in (".npz", ".txt"))):
        content = normalised(file.read_text(encoding="utf-8")) if file.suffix == ".py" else of_file(file)
        digest.update(f"{file.relative_to(ROOT).as_posix()} {hashlib.sha256(content.encode()).hexdigest()}\n".encode())
    return digest.hexdigest()


def code_files() -> list[Path]:
    """The modules that a run may execute."""
    return sorted(file for file in ROOT.rglob("*.py") if not file.relative_to(ROOT).as_posix().startswith(NOT_RUN))


def normalised(source: str) -> str:
    """Code without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def machine(device: str) -> str:
    """Processor or GPU, and the versions that matter."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {os.cpu_count()} cores"
    return f"{name}, torch {torch.__version__}, Python {platform.python_version()}"


def commit() -> str:
    """The commit of the source tree, with a note if files were changed since; "" outside a checkout."""
    run = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    try:
        changed = run(["git", "status", "--porcelain", "--", "."]).stdout.strip()
        return str(run(["git", "rev-parse", "HEAD"]).stdout.strip()) + (" with changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""
