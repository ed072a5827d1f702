"""The code of tutorials and how-tos runs, in order, and prints what the pages show. So do the notebooks.

Every ``bash`` and ``python`` block of a page runs in one folder, unless a comment stands before it:

    <!-- not run: REASON -->        it never runs here
    <!-- needs PACKAGE -->          it runs if the package is installed

A ``text`` block after it must be in its output, line by line; decimals may differ a little. ``<!-- needs zgul
COMMAND -->`` or ``<!-- needs docs/PAGE -->`` at the top switches a whole page on when the command or the page exists.
"""

import contextlib
import importlib.util
import io
import os
import re
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from zgul.cli import COMMANDS
from zgul.errors import ZgulError
from zgul.methods import METHODS, register

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path for folder in ("tutorials", "howto") for path in (ROOT / "docs" / folder).glob("*.md"))
NOTEBOOKS = {"tag-and-see-why": "", "your-text-your-tagger": "adapt"}  # and the command that each needs
STEP = re.compile(
    r"(?:<!-- (not run: [^\n]+|needs \w+) -->\n)?^```(bash|python|text)\n(.*?)^```", re.DOTALL | re.MULTILINE
)
DECIMAL, CLOSE = re.compile(r"\d+\.\d+"), 0.03
NEEDED = re.compile(r"\A<!-- needs (?:zgul (\w+)|docs/([\w.-]+)) -->")


def steps(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page that can run here, and what they print."""
    found = []
    for remark, kind, code in STEP.findall(page.read_text(encoding="utf-8")):
        package = remark.removeprefix("needs ") if remark.startswith("needs") else ""
        if not remark.startswith("not run") and (not package or importlib.util.find_spec(package)):
            found.append((kind, code))
    return found


def missing(page: Path) -> str:
    """What a page waits for, or nothing."""
    match = NEEDED.match(page.read_text(encoding="utf-8"))
    if match and match[1] and match[1] not in COMMANDS:
        return f"zgul {match[1]}"
    return f"docs/{match[2]}" if match and match[2] and not (ROOT / "docs" / match[2]).is_file() else ""


def shell_of(folder: Path) -> dict[str, str]:
    """An environment in which ``zgul`` is this checkout."""
    command = folder / "bin" / "zgul"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zgul "$@"\n', encoding="utf-8")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return os.environ | {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COLUMNS": "100",
    }


def run(kind: str, code: str, names: dict[str, object], shell: dict[str, str]) -> str:
    """Run one block and return what it printed."""
    if kind == "bash":
        done = subprocess.run(["bash", "-e", "-c", code], env=shell, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "<docs>", "exec", dont_inherit=True), names)
    return printed.getvalue()


def is_printed(line: str, output: str) -> bool:
    """Whether a line is in the output, whatever the layout. Its decimals may differ a little between machines."""
    wanted = " ".join(line.split())
    numbers = list(map(float, DECIMAL.findall(wanted)))
    pattern = r"(\d+\.\d+)".join(map(re.escape, DECIMAL.split(wanted)))
    found = re.findall(f"()()(?:{pattern})", " ".join(output.split()))
    return any(all(abs(a - float(b)) <= CLOSE for a, b in zip(numbers, one[2:], strict=True)) for one in found)


def run_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if wanted := missing(page):
        pytest.skip(f"{page.name} is for {wanted}, which is not there yet")
    monkeypatch.chdir(folder)
    shell, names, output = shell_of(folder), {"__name__": "docs"}, ""
    monkeypatch.setitem(sys.modules, "docs", type(sys)("docs"))  # dataclasses look there for their module
    for kind, code in steps(page):
        if kind != "text":
            output = run(kind, code, names, shell)
            continue
        for line in code.splitlines():
            assert is_printed(line, output), f"{page.name}: {line!r} is not in\n{output}"


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if steps(page)], ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = set(METHODS)
    try:
        run_page(page, tmp_path, monkeypatch)
    finally:
        for name in set(METHODS) - known:
            del METHODS[name]


def test_every_page_says_first_whom_it_is_for() -> None:
    places = (".", "tutorials", "howto", "background", "reference")
    for page in (path for place in places for path in (ROOT / "docs" / place).glob("*.md")):
        begin = " ".join(NEEDED.sub("", page.read_text(encoding="utf-8")).split()[:120])
        assert re.search(r"\b(is|are) for\b", begin), page.name


def test_the_new_method_has_at_most_sixty_lines() -> None:
    (code, *_) = [code for kind, code in steps(ROOT / "docs" / "tutorials" / "new-method.md") if kind == "python"]
    assert len(code.splitlines()) <= 60


def test_a_method_is_registered_once() -> None:
    with pytest.raises(ZgulError, match="already"):
        register(METHODS["zgul"])


@pytest.mark.slow
def test_the_command_line_knows_the_methods_of_other_packages(tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorials" / "new-method.md"
    about = tmp_path / "learnt-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: learnt\nVersion: 0.1\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[zgul.methods]\nlearnt-mix = learnt_mix\n", encoding="utf-8")
    (tmp_path / "learnt_mix.py").write_text(steps(page)[0][1], encoding="utf-8")
    shell = shell_of(tmp_path)
    shell["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    assert re.search(r"^learnt-mix +Learnt mix", run("bash", "zgul methods", {}, shell), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    if NOTEBOOKS[name] and NOTEBOOKS[name] not in COMMANDS:
        pytest.skip(f"zgul {NOTEBOOKS[name]} is not there yet")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    place = {"metadata": {"path": tmp_path}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=place).execute()
    assert not [out for cell in notebook.cells for out in cell.get("outputs", ()) if out.get("output_type") == "error"]


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|img|iframe)\b[^>]*\bsrc=\"(?:https?:)?//", text), page.name
        assert not re.search(r"<link\b[^>]*\bhref=\"(?:https?:)?//", text), page.name
    assert (tmp_path / "site" / "file-worker.js").is_file() and (tmp_path / "search" / "search_index.js").is_file()
