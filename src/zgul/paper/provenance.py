"""What a result came from: checksums of data, encoder, adapters and code; the machine and the commit."""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

import torch

import zgul
from zgul.adapters.shipped import ADAPTERS
from zgul.corpora.data_folder import DataFolder
from zgul.encoders.embedded import SHA256, VERSION
from zgul.encoders.q4 import SUFFIX
from zgul.errors import ZgulError
from zgul.files import shipped_folder

ROOT = Path(zgul.__file__).parent
START = "paper/execution.py"  # a run's numbers depend on this module and all that it imports


@cache
def count_sentences(data: Path, task: str, language: str, split: str) -> int:
    """Sentences of a labelled split."""
    return len(DataFolder(data).sentences(task, language, split))


def of_file(path: Path) -> str:
    """SHA-256 of a file."""
    return _of_file(path.resolve(), path.stat().st_mtime_ns, path.stat().st_size)


@cache
def _of_file(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_folder(path: Path) -> str:
    """SHA-256 over names and contents of a folder's files."""
    digest = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()} {of_file(file)}\n".encode())
    return digest.hexdigest()


def of_encoder(name: str) -> str:
    """Checksum of an encoder's weights and vocabulary; for one on the hub, its name."""
    path = Path(name)
    if name == "embedded":
        return f"{SHA256}-{VERSION}"
    if path.is_dir():
        return of_folder(path)
    if path.is_file():
        return of_file(path)
    if name.endswith(SUFFIX):
        raise ZgulError(f"{name}: no such file")
    return name


def of_adapters(places: str) -> str:
    """Checksum of the language adapters at one place or, separated by commas, several."""
    sums = []
    for place in (part.strip() for part in places.split(",")):
        path = shipped_folder() / ADAPTERS if place == "shipped" else Path(place).expanduser()
        if path.is_file():
            sums.append(of_file(path))
        elif path.is_dir():
            sums.append(of_folder(path))
        elif place == "new" or "{lang}" in place:
            sums.append(place)
        else:
            raise ZgulError(f"No language adapters at {place!r}. Give shipped, new, a file, a folder or a hub name.")
    return ",".join(sums)


@cache
def of_code() -> str:
    """Checksum of all code that a run executes, and of the tables it reads.

    Code counts if `START` imports it, directly or through others. Comments, docstrings and layout do not count.
    """
    files = sorted(imported_modules(ROOT / START))
    files += sorted(file for file in ROOT.rglob("*") if file.suffix in (".npz", ".txt"))
    digest = hashlib.sha256()
    for file in files:
        content = normalised(file.read_text(encoding="utf-8")) if file.suffix == ".py" else of_file(file)
        digest.update(f"{file.relative_to(ROOT).as_posix()} {hashlib.sha256(content.encode()).hexdigest()}\n".encode())
    return digest.hexdigest()


def imported_modules(start: Path) -> set[Path]:
    """The package's own modules that a module imports, directly or through others; with itself."""
    seen: set[Path] = set()
    waiting = [start]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                parts = name.split(".")
                if parts[0] == "zgul":
                    places = [ROOT.joinpath(*parts[1:n]) for n in range(1, len(parts) + 1)]
                    found = [p for place in places for p in (place.with_suffix(".py"), place / "__init__.py")]
                    waiting += [path for path in found if path.is_file()]
    return seen


def normalised(source: str) -> str:
    """Code without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not _is_text(part)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def machine(device: str) -> str:
    """Processor or GPU, and the versions that matter."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {os.cpu_count()} cores"
    return f"{name}, torch {torch.__version__}, Python {platform.python_version()}"


def commit() -> str:
    """The commit of the source tree, marked where files were changed since; "" outside a checkout."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".")
        return git("rev-parse", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""
