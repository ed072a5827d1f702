"""Imports point one way, as docs/architecture.md says."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "zgul"
EXCEPTIONS = {("methods/tagger.py", "tagging")}  # the package's own language adapters


def parts_in_order() -> list[str]:
    """The parts as the document lists them, from the top."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listing = text.split("src/zgul/\n")[1].split("```")[0]
    return [re.sub(r"(\.py|/)$", "", line.split()[0]) for line in listing.splitlines() if line.strip()]


def imports(tree: ast.AST) -> Iterator[str]:
    """The parts of zgul that a module imports, anywhere in it, but not for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "zgul":
            names = [node.module] if "." in node.module else [f"zgul.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("zgul.")]
        else:
            names = []
        yield from (name.split(".")[1] for name in names)
        yield from imports(node)


def test_the_document_lists_every_part():
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert set(parts_in_order()) == there - {"__init__"}


def test_a_part_imports_only_what_stands_above_it():
    order = parts_in_order()
    wrong = set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        used = {part for part in imports(ast.parse(path.read_text(encoding="utf-8"))) if part in order}
        wrong |= {(name, part) for part in used if order.index(part) > order.index(own)}
    assert wrong == EXCEPTIONS
