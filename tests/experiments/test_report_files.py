"""The report as files: complete, self-contained, the same from a store and from its export, and the committed one."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

import invented_results
from zgul.errors import ZgulError
from zgul.experiments.report import figures, html, markdown, open_results, write_first, write_report
from zgul.experiments.report.build import build
from zgul.experiments.report.document import Cell, Column, Row, Table, join
from zgul.experiments.report.files import contents, names
from zgul.experiments.report.latex import table as latex_table
from zgul.experiments.report.markdown import table as markdown_table
from zgul.experiments.store import Store

COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "paper"
VOID = {"meta", "img", "br", "link"}


class Balanced(HTMLParser):
    """Fails on tags that are not closed in order; collects what a page loads and the ids it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.loads, self.ids, self.links = [], [], set(), []

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        self.loads += [told[name] for name in ("src", "href") if name in told and tag in ("img", "link", "script")]
        self.ids |= {told["id"]} if "id" in told else set()
        self.links += [told["href"]] if tag == "a" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Store:
    """One group is enough to look at files."""
    return invented_results.fill(tmp_path_factory.mktemp("small"), groups=("germanic",), seeds=(0, 1), sentences=8)


@pytest.fixture(scope="module")
def written(small, tmp_path_factory) -> Path:
    pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'zgul[plots]'")
    folder = tmp_path_factory.mktemp("report")
    paths = write_report(small.folder, folder)
    assert sorted(paths) == sorted(path for path in folder.rglob("*") if path.is_file())
    assert [path.relative_to(folder).as_posix() for path in paths] == names(
        build(*open_results(small.folder)), ("html", "md", "latex", "figures")
    )
    return folder


def test_html_needs_no_other_file(written):
    pages = sorted(written.glob("*.html"))
    assert len(pages) == 1 + 3  # the report, and three languages
    for page in pages:
        text = page.read_text(encoding="utf-8")
        parser = Balanced()
        parser.feed(text)
        assert parser.open == []
        assert all(place.startswith("data:image/svg+xml;base64,") for place in parser.loads)
        assert "http" not in re.sub(r"base64,[^\"]*", "", text)
        for link in parser.links:
            assert link[1:] in parser.ids if link.startswith("#") else (written / link).is_file()
    assert 'class="sortable"' in text and "aria" in text


def test_markdown_links_and_tables_are_whole(written):
    for page in written.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for place in re.findall(r"\]\(([^)]+)\)", text):
            assert (written / place).is_file(), place
        for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(widths) == 1, block


def test_latex_tables_are_whole(written):
    files = sorted((written / "latex").glob("*.tex"))
    whole = (written / "latex" / "all.tex").read_text(encoding="utf-8")
    assert {f"{name}.tex" for name in re.findall(r"\\input{([^}]*)}", whole)} == {p.name for p in files} - {"all.tex"}
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert re.sub(r"\\[{}]", "", text).count("{") == re.sub(r"\\[{}]", "", text).count("}")
        assert re.findall(r"\\begin{([^}]*)}", text) == list(reversed(re.findall(r"\\end{([^}]*)}", text)))
        if path.name == "all.tex":
            continue
        columns = len(re.sub(r"\|", "", re.search(r"\\begin{tabular}{([l|]*)}", text)[1]))
        for line in text.splitlines():
            if line.endswith(r"\\") and "multicolumn" not in line:
                assert len(re.findall(r"(?<!\\)&", line)) == columns - 1


def test_figures_are_images_of_both_kinds(written):
    svgs = sorted((written / "figures").glob("*.svg"))
    assert {path.stem for path in svgs} >= {
        "weights-lang2vec", "weights-fusion", "weights-emea", "similarity-average", "similarity-genetic",
        "similarity-syntactic", "few-shot-groups", "few-shot-languages", "unlabelled", "few-shot-fo",
    }  # fmt: skip
    for path in svgs:
        ElementTree.parse(path)
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_an_export_gives_the_same_report(invented, tmp_path):
    invented.export(tmp_path / "export.json.gz")
    plain = ("md", "latex")
    from_store = dict(contents(build(*open_results(invented.folder)), plain))
    from_export = dict(contents(build(*open_results(tmp_path / "export.json.gz")), plain))
    assert from_store == from_export


def test_the_committed_report_is_what_its_export_gives():
    """No number in it was typed by hand."""
    export = COMMITTED / "export.json.gz"
    if not export.is_file():
        pytest.skip("docs/results/paper has no export yet")
    report = build(*open_results(export))
    made = dict(contents(report, ("md", "latex")))
    for name, content in made.items():
        assert (COMMITTED / name).read_bytes() == content, f"{name} is not what `zgul report` writes"
    there = {path.relative_to(COMMITTED).as_posix() for kind in ("*.md", "*.tex") for path in COMMITTED.rglob(kind)}
    assert there - {"README.md"} == set(made)
    for name, page in {"index": report.main, **report.pages}.items():
        page_file = COMMITTED / f"{name}.html"
        if page_file.is_file():  # but for the figures, which depend on the version of matplotlib
            assert without_figures(page_file.read_text(encoding="utf-8")) == html.write(page, lambda _figure: b"")


def without_figures(text: str) -> str:
    return re.sub(r"base64,[^\"]*", "base64,", text)


def test_html_but_for_figures_does_not_depend_on_matplotlib(written, small):
    report = build(*open_results(small.folder))
    text = (written / "index.html").read_text(encoding="utf-8")
    assert without_figures(text) == html.write(report.main, lambda _figure: b"")


def test_cut_data_are_named_at_the_head(tmp_path):
    store = Store(tmp_path, create=True)
    store.note(protocol={"limit": 96, "test_limit": 24}, commands=["a", "b", "a"])
    facts = dict(build(store, {}).main.facts)
    for told in ("at most 96 training sentences of a source", "at most 24 test sentences of a target"):
        assert told in facts["Note"]
    assert facts["Commands"] == "2, listed at the end"
    text = markdown.write(build(store, {}).main)
    assert "Commands, in their order:\n\n- `a`\n- `b`\n" in text
    assert "Protocol of the last command: limit 96" in text
    store.note(commands=["a"])
    assert dict(build(store, {}).main.facts)["Command"] == "`a`"


def test_without_matplotlib_the_extra_is_named(invented, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ZgulError, match=r"pip install 'zgul\[plots\]'"):
        write_report(invented.folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert write_report(invented.folder, tmp_path / "out", ("md",))


def test_mistakes_are_told(invented, tmp_path):
    with pytest.raises(ZgulError, match="no format 'pdf'"):
        write_report(invented.folder, tmp_path, ("pdf",))
    with pytest.raises(ZgulError, match="no such folder or file"):
        write_report(tmp_path / "nothing", tmp_path)
    with pytest.raises(ZgulError, match="holds no results"):
        write_report(tmp_path, tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ZgulError, match="is a file; the report needs a folder"):
        write_report(invented.folder, tmp_path / "file", ("md",))


def test_words_cannot_break_a_table():
    table = Table(
        "odd", "Caption with `code_of` 50%", (Column("a|b_c"), Column("x & y")),
        (Row("MADX^multi-Rel", (Cell(text="*|*"), Cell(1234.5, 0.5, 7.0, bold=True, mark="*"))),),
    )  # fmt: skip
    markdown = markdown_table(table)
    assert r"a\|b\_c" in markdown and r"\*\|\*" in markdown
    assert "**1,234.5 ± 0.5\\*** (7.0)" in markdown or "**1,234.5 ± 0.5*** (7.0)" in markdown
    latex = latex_table(table)
    assert r"x \& y" in latex and r"\texttt{code\_of} 50\%" in latex and "MADX$^{multi}$-Rel" in latex
    assert r"\textbf{1,234.5}$_{\pm0.5}$$^*$ {\scriptsize (7.0)}" in latex


def test_groups_stand_side_by_side_with_gaps_where_one_lacks_a_row():
    one = Table("a", "", (Column("Fo"),), (Row("A", (Cell(1.0),)), Row("B", (Cell(2.0),), rule=True)))
    two = Table("b", "", (Column("Cu"),), (Row("B", (Cell(3.0),)),))
    both = join("c", "", [("One", one), ("Two", two)])
    assert both.column_groups == [("One", 1), ("Two", 1)]
    assert [(row.title, [cell.value for cell in row.cells]) for row in both.rows] == [
        ("A", [1.0, None]),
        ("B", [2.0, 3.0]),
    ]


def test_first_results_compare_with_the_floor(invented, tmp_path):
    text = write_first(invented.folder, tmp_path / "first.md").read_text(encoding="utf-8")
    assert "one seed (0)" in text and "Germanic: Fo" in text and "African: Luo" in text
    assert "47.6 measured before" in text and "57.1 measured before" in text
    tables, unlabelled = text.split("## With unlabelled text of the target")
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 1 + 14 + 1  # heads, rule, every row of the zero-shot tables, tied EM
    rows = [line.split(" | ")[0] for line in unlabelled.splitlines() if line.startswith("| ")]
    assert rows == [
        "| Method", "| ---", "| MADX^multi-Tgt", "| SFT++", "| ZGUL++", "| ZGUL++ w/o target adapter",
    ]  # fmt: skip


def test_heat_maps_darken_evenly_and_their_numbers_can_be_read():
    library = pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'zgul[plots]'")
    colours = [library.colormaps[figures.MAP](step / 20) for step in range(21)]
    light = [figures.luminance(colour) for colour in colours]
    assert light == sorted(light, reverse=True)
    for colour, value in zip(colours, light, strict=True):
        ink = 0.0 if figures.readable_on(colour) == "black" else 1.0
        assert (max(ink, value) + 0.05) / (min(ink, value) + 0.05) >= 4.5  # WCAG AA


def test_lines_differ_without_colour():
    assert len({style["marker"] for style in figures.LINES}) == len(figures.LINES)
    assert len({str(style["linestyle"]) for style in figures.LINES}) == len(figures.LINES)
