"""Checksums of what can change a result: labelled files, text, encoder, adapters, and the code that a run uses."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

import zgul
from zgul.errors import ZgulError

# what a run's numbers come out of; commands, reports and the store do not change them
USED = ("languages", "corpora", "encoders", "adapters", "ensemble", "methods", "evaluation", "training")
EXECUTION = ("experiments/execute.py", "experiments/resources.py", "experiments/text.py")
_PACKINGS = ("", ".xz", ".gz", ".zst", ".bz2")


def labelled(data: Path, task: str, language: str, split: str) -> Path | None:
    """The file of a split, if it is there."""
    folder = Path(data) / task / language
    names = (f"{split}{form}{packing}" for form in (".tsv", ".txt", ".conllu") for packing in _PACKINGS)
    return next((folder / name for name in names if (folder / name).is_file()), None)


def texts(data: Path, language: str) -> list[Path]:
    """The files of unlabelled text of a language."""
    folder = Path(data) / "text"
    names = [f"{language}.{kind}.txt{packing}" for kind in ("open", "research") for packing in _PACKINGS]
    return [folder / name for name in names if (folder / name).is_file()]


@cache
def count_sentences(path: Path, task: str) -> int:
    """Sentences of a labelled file that have words."""
    from zgul import corpora

    split = path.name.split(".tsv")[0].split(".txt")[0].split(".conllu")[0]
    return len(corpora.load(path.parents[2], task, path.parent.name, split))


def of_file(path: Path) -> str:
    """SHA-256 of a file."""
    return _of_file(path.resolve(), path.stat().st_mtime_ns, path.stat().st_size)


@cache
def _of_file(path: Path, changed: int, size: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def of_folder(path: Path) -> str:
    """SHA-256 over names and contents of a folder's files."""
    digest = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()} {of_file(file)}\n".encode())
    return digest.hexdigest()


def of_encoder(name: str) -> str:
    """The weights and vocabulary of an encoder; of one on the hub its name."""
    if name == "embedded":
        from zgul.encoders.embedded import SHA256, VERSION

        return f"{SHA256}-{VERSION}"
    path = Path(name)
    if path.is_dir():
        return of_folder(path)
    if path.is_file():
        return of_file(path)
    if name.endswith(".q4.safetensors"):
        raise ZgulError(f"{name}: no such file")
    return name


def of_adapters(where: str) -> str:
    """The language adapters at one place or, with commas, several."""
    sums = []
    for place in (part.strip() for part in where.split(",")):
        path = Path(place).expanduser()
        if place == "shipped":
            from zgul.tagging import shipped

            path = shipped.folder() / "adapters.safetensors"
        if path.is_file():
            sums.append(of_file(path))
        elif path.is_dir():
            sums.append(of_folder(path))
        elif place == "new" or "{lang}" in place:
            sums.append(place)
        else:
            raise ZgulError(f"no language adapters at {place!r}: give shipped, new, a file, a folder or a hub name")
    return ",".join(sums)


@cache
def of_code() -> str:
    """The code and tables of the parts that a run uses; comments, docstrings and layout do not count."""
    root = Path(zgul.__file__).parent
    files = [file for part in USED for file in (root / part).rglob("*") if file.is_file()]
    files += [root / name for name in ("graphs.py", "precision.py", "tensors.py", *EXECUTION)]
    digest = hashlib.sha256()
    for file in sorted(files):
        if "__pycache__" not in file.parts and file.suffix not in (".pyc", ".md"):
            digest.update(f"{file.relative_to(root).as_posix()} {_of_source(file)}\n".encode())
    return digest.hexdigest()


def _of_source(file: Path) -> str:
    if file.suffix != ".py":
        return of_file(file)
    return hashlib.sha256(normalised(file.read_text(encoding="utf-8")).encode()).hexdigest()


def normalised(source: str) -> str:
    """Code without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = [part for part in node.body if not _is_text(part)]
            node.body = body or [ast.Pass()]
    return ast.unparse(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
