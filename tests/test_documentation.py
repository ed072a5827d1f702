"""The documentation is true where that can be checked: links, commands and their options, names in Python, files."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from zgul.cli import COMMANDS
from zgul.training.config import TrainingConfig

ROOT = Path(__file__).resolve().parents[1]
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
GUIDES = [
    path for name in ("tutorials", "howto", "reference", "background") for path in (ROOT / "docs" / name).glob("*.md")
]
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").glob("*.md")), *sorted(GUIDES)]
LINKED = [*PAGES, *sorted((ROOT / "docs" / "results").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
FOLDERS = ("src/", "tests/", "scripts/", "benchmarks/", "reliability/", "requirements/", "docs/", ".ci/")
ON_ALL = {"--help", "-h"}
ON_TOP = ON_ALL | {"--version", "--install-completion", "--show-completion"}


def is_ready(page: Path) -> bool:
    """Whether the command or the page exists that a page needs (see tests/test_tutorials.py)."""
    needs = re.match(r"<!-- needs (?:zgul (\w+)|(docs/[\w.-]+)) -->", page.read_text(encoding="utf-8"))
    return not needs or (needs[1] in COMMANDS if needs[1] else (ROOT / needs[2]).is_file())


PAGES, LINKED = list(filter(is_ready, PAGES)), list(filter(is_ready, LINKED))
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def blocks(page: Path, *kinds: str) -> list[str]:
    return [code for kind, code in BLOCK.findall(page.read_text(encoding="utf-8")) if kind in kinds]


def spans(page: Path) -> list[str]:
    """The inline code of a page."""
    return SPAN.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))


@cache
def command(name: str) -> Any:
    """A command of the first level, loaded as `zgul NAME` loads it."""
    return typer.main.get_command(importlib.import_module(f"zgul.cli.{name}_command").app)


def options_of(command: Any) -> set[str]:
    return {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)} | ON_ALL


@cache
def all_options() -> set[str]:
    commands = [command(name) for name, about in COMMANDS.items() if "help" in about]
    inner = [one for group in commands for one in getattr(group, "commands", {}).values()]
    return set().union(*(options_of(one) for one in [*commands, *inner]), ON_TOP)


def calls(page: Path) -> Iterator[str]:
    """Every call of zgul that a page shows, without comments."""
    lines = [line for code in blocks(page, "", "bash", "sh") for line in code.splitlines()]
    for text in (*lines, *spans(page)):
        for part in re.split(r"\s\|\s|&&|\s#\s", text):
            if part.strip().startswith("zgul "):
                yield part.strip()


def heading_anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in heading_anchors(target), link


@each_page
def test_commands_have_the_options_that_are_shown(page: Path) -> None:
    for call in calls(page):
        words = call.split()[1:]
        if words[0].startswith("-"):
            assert words[0] in ON_TOP, call
            continue
        assert words[0] in COMMANDS, call
        called = command(words[0])
        if inner := getattr(called, "commands", None):
            if len(words) == 1:
                continue  # the group as a whole
            assert words[1] in inner, call
            called = inner[words[1]]
        unknown = set(OPTION.findall(re.sub(r'"[^"]*"|\'[^\']*\'', "", call))) - options_of(called)
        assert not unknown, f"{call}: {', '.join(sorted(unknown))}"


@each_page
def test_options_named_alone_exist(page: Path) -> None:
    """Options of scripts count if a script, a benchmark or a proof has them; those of pip, if make gives them."""
    scripts = [path for name in ("scripts", "benchmarks", "reliability") for path in (ROOT / name).glob("*.py")]
    known = (
        all_options()
        | set(OPTION.findall((ROOT / "Makefile").read_text("utf-8")))
        | {flag for path in scripts for flag in re.findall(r'"(--[a-z-]+)"', path.read_text("utf-8"))}
    )
    named = {flag for span in spans(page) if span.startswith("--") for flag in OPTION.findall(span)}
    assert not named - known


@each_page
def test_settings_of_training_exist(page: Path) -> None:
    for call in (*calls(page), *spans(page)):
        for name in re.findall(r"--set ([\w.]+)=", call):
            *groups, last = name.split(".")
            options: Any = TrainingConfig
            for group in groups:
                options = options.option_groups()[group]
            assert last in {option for option, _, _ in options.declared()}, name


@each_page
def test_python_names_can_be_imported(page: Path) -> None:
    dotted = {name for span in spans(page) for name in re.findall(r"\bzgul(?:\.[A-Za-z_]\w*)+", span)}
    for name in sorted(dotted):
        assert can_import(name), name


def can_import(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for part in parts[size:]:
            fields = getattr(found, "__dataclass_fields__", {})
            if not hasattr(found, part) and part not in fields:
                return False
            found = getattr(found, part, None)
        return True
    return False


@each_page
def test_python_examples_parse_and_import_what_exists(page: Path) -> None:
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zgul"):
                for alias in node.names:
                    assert can_import(f"{node.module}.{alias.name}"), f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("zgul."):
                name = re.match(r"[\w.]+", ast.unparse(node))
                assert name and can_import(name[0]), ast.unparse(node)


@each_page
def test_files_that_are_named_exist(page: Path) -> None:
    code = ROOT / "src" / "zgul"
    for span in spans(page):
        for word in span.split():
            if word.startswith(FOLDERS) and re.fullmatch(r"[\w./-]+", word) and "NAME" not in word:
                assert (ROOT / word).exists(), word
            elif page.name == "architecture.md" and re.fullmatch(r"[a-z_]+/[a-z_]+\.\w+", word):
                assert (code / word).exists(), word


def test_classes_and_functions_of_the_architecture_exist() -> None:
    """Names in code of the steps and rules: `Tagger.predict`, `EncodedCorpus`, `minimise_entropy`."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "zgul").rglob("*.py")]
    for name in {
        span for span in spans(ROOT / "docs" / "architecture.md") if re.fullmatch(r"[A-Z]\w+[a-z]\w*(\.\w+)?", span)
    }:
        cls, _, member = name.partition(".")
        (source,) = [text for text in sources if re.search(rf"^class {cls}\b", text, re.MULTILINE)]
        assert not member or re.search(rf"^    (def {member}\b|{member}:)", source, re.MULTILINE), name
    for name in {span for span in spans(ROOT / "docs" / "architecture.md") if re.fullmatch(r"[a-z]+_[a-z_]+", span)} - {
        "weights_only"
    }:
        assert any(re.search(rf"^ *(def |class )?{name}\b", text, re.MULTILINE) for text in sources), name


@each_page
def test_make_has_the_targets_that_are_shown(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    lines = [line for code in blocks(page, "", "bash", "sh") for line in code.splitlines()]
    shown = {word for text in (*lines, *spans(page)) for word in re.findall(r"^make ([a-z-]+)", text)}
    assert shown <= targets


def test_the_readme_begins_with_how_to_tag_and_how_to_test() -> None:
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25]
    assert any(line.startswith("make tag") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)
