"""The report as files: complete, self-contained, the same from a store and from its export, and the committed one."""

import gzip
import json
import random
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from html.parser import HTMLParser
from operator import getitem
from pathlib import Path

import pytest

import invented_results
from zgul.errors import ZgulError
from zgul.paper.export import Export, export_results
from zgul.paper.frame import Frame
from zgul.paper.report import build_report, figures, open_results, report_files, side_by_side, write_report
from zgul.paper.report.document import Cell, ReportTable, latex_table, markdown_table, write_html, write_markdown
from zgul.paper.store import Store

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
    return folder


def test_html_needs_no_other_file(written):
    pages = sorted(written.glob("*.html"))
    assert len(pages) == 1 + 3 + 1  # the report, three languages, two systems side by side
    for page in pages:
        text = page.read_text(encoding="utf-8")
        parser = Balanced()
        parser.feed(text)
        assert parser.open == []
        assert all(place.startswith("data:image/svg+xml;base64,") for place in parser.loads)
        assert not re.search(r"fetch\(|XMLHttpRequest|import\(|url\(", text)
        assert "http" not in re.sub(r"base64,[^\"]*", "", text)
        for link in parser.links:
            assert link[1:] in parser.ids if link.startswith("#") else (written / link).is_file()
    main = (written / "index.html").read_text(encoding="utf-8")
    assert 'class="sortable"' in main and "ariaSort" in main


def test_the_report_opens_with_the_picture_and_then_the_verdicts(written):
    text = (written / "report.md").read_text(encoding="utf-8")
    places = [
        text.index(part) for part in ("](figures/overview.png)", "| Verdict |", "**Departures from the paper**: ")
    ]
    assert places == sorted(places)
    assert text.index("## ") < places[0] < text.index("## Do the paper's claims hold here?")


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
        "overview", "weights-lang2vec", "weights-fusion", "weights-emea", "similarity-average", "similarity-genetic",
        "similarity-syntactic", "few-shot-groups", "few-shot-languages", "unlabelled", "few-shot-fo",
    }  # fmt: skip
    for path in svgs:
        ElementTree.parse(path)
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def text_files(frame: Frame, **more) -> dict[str, bytes]:
    return dict(report_files(frame, build_report(frame, **more), ("md", "latex")))


def test_an_export_gives_the_same_report(invented, tmp_path):
    export_results(invented.folder, tmp_path / "export.json.gz")
    from_store, from_export = open_results(invented.folder), open_results(tmp_path / "export.json.gz")
    assert text_files(from_store) == text_files(from_export)
    assert side_by_side(from_store) == side_by_side(from_export) is not None


def test_an_export_without_sentences_gives_the_same_report_but_for_the_examples(invented, tmp_path):
    export_results(invented.folder, tmp_path / "export.json.gz", sentences=False)
    without = open_results(tmp_path / "export.json.gz")
    pages = [build_report(frame)["index"] for frame in (without, open_results(invented.folder))]
    one, other = map(markdown_sections, pages)
    assert [title for title in other if one[title] != other[title]] == ["Examples"]
    assert side_by_side(without) is None
    (told,) = pages[0].sections["Examples"]
    assert "not the words of the test files" in told and "`zgul report FILE --data DATA --output DIR`" in told


def test_the_data_give_an_export_its_sentences_back(small, tmp_path):
    export_results(small.folder, tmp_path / "export.json.gz", sentences=False)
    for _, language in small.gold_keys():
        path = tmp_path / "data" / "pos" / language / "test.tsv"
        path.parent.mkdir(parents=True)
        sentences = (zip(s.words, s.tags, strict=True) for s in small.gold("germanic", language))
        path.write_text("\n".join("".join(f"{word}\t{tag}\n" for word, tag in pairs) for pairs in sentences))
    filled, whole = open_results(tmp_path / "export.json.gz", tmp_path / "data"), open_results(small.folder)
    assert text_files(filled) == text_files(whole)
    assert side_by_side(filled) == side_by_side(whole) is not None
    export, again = Export(tmp_path / "export.json.gz"), Store(tmp_path / "again", create=True)
    again.note(**export.meta)
    again.plan(export.runs())
    for place in export.gold_keys():
        again.add_gold(*place, export.gold(*place))
    for score in export.scores():
        again.add_score(score, export.predictions(score.run, score.row, score.language))
    blank = open_results(again.folder)
    assert side_by_side(blank) is None and not blank.analyses["examples"]
    assert side_by_side(open_results(again.folder, tmp_path / "data")) == side_by_side(whole)
    path.write_text(path.read_text().replace("\tNOUN", "\tVERB"))
    with pytest.raises(ZgulError, match=f"the test file of {language} is not the one"):
        open_results(tmp_path / "export.json.gz", tmp_path / "data")


MISSING = object()
VALUES = (MISSING, MISSING, None, True, -1, 0.5, 1e300, 10**400, "", "x", [], [None], {}, {"x": {}})


@pytest.fixture(scope="module")
def tiny_export(tmp_path_factory) -> dict:
    """An export that has something of all that a report reads, and little of each."""
    folder = tmp_path_factory.mktemp("tiny")
    store = invented_results.fill(folder, groups=("germanic",), seeds=(0,), sentences=3)
    store.note(protocol={"limit": 5, "batch_size": 4, "em_steps": [1, 2], "em_rates": [10.0]})
    export_results(folder, folder / "export.json")
    whole = json.loads((folder / "export.json").read_text())
    kept = {"method": ("zgul", "cpg", "sft-m", "madx-multi"), "language": ("fo",), "examples": (0, 10), "share": (1.0,)}
    runs = ({**run["extra"], **run}.items() for run in whole["runs"])
    left = [all(value in kept[name] for name, value in run if name in kept) for run in runs]
    whole["runs"] = [run for run, stays in zip(whole["runs"], left, strict=True) if stays]
    hashes = {run["hash"] for run in whole["runs"]}
    whole["scores"] = [one for one in whole["scores"] if one["run"] in hashes and one["language"] != "got"]
    group = {"group": "germanic", "task": "pos", "sources": ["en"], "missing": ["de"], "test_tags": ["NOUN"]}
    group |= dict.fromkeys(("train", "dev", "paper_train", "paper_dev"), 5)
    target = {"language": "fo", "group": "germanic", "script": "Latin", "sentences": 5, "overlap": 3.0}
    target |= {f"paper_{name}": target[name] for name in ("script", "sentences", "overlap")}
    whole["analyses"]["statistics"] = {"groups": [group], "targets": [target]}
    whole["analyses"]["text"] = {"fo": {"open": 5}}
    return whole


def places(value: object, *place: str | int) -> Iterator[tuple[str | int, ...]]:
    """Where every field and item is."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield (*place, name)
        yield from places(inner, *place, name)


def changed(whole: dict, place: Sequence[str | int], value: object) -> dict:
    """A copy in which one field has another value, or is missing."""
    copy = json.loads(json.dumps(whole))
    holder = reduce(getitem, place[:-1], copy)
    if value is MISSING:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return copy


def test_a_changed_export_is_reported_or_refused(tiny_export, tmp_path):
    """Fields of all kinds in turn: the report is written, or one error names the file and a field."""
    path, draw, kinds, refused = tmp_path / "export.json.gz", random.Random(1), defaultdict(list), 0
    for place in places(tiny_export):
        kinds[tuple(name for name in place if isinstance(name, str))].append(place)
    fields = "|".join(tiny_export)
    for _ in range(200):
        place, value = draw.choice(kinds[draw.choice(list(kinds))]), draw.choice(VALUES)
        path.write_bytes(gzip.compress(json.dumps(changed(tiny_export, place, value)).encode(), 1))
        try:
            frame = open_results(path)
            assert dict(report_files(frame, build_report(frame), ["md"]))
        except ZgulError as error:
            refused += 1
            assert re.match(rf"{path} is not an export of results \(({fields})[. ]", str(error))
        except Exception as error:
            pytest.fail(f"{place} = {value!r}: {type(error).__name__}: {error}")
    assert 60 < refused < 160


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("runs",), {}, "runs is {}, not a list"),
        (("runs", 0, "seed"), MISSING, "runs.0.seed is missing"),
        (("runs", 0, "group"), "x", "runs.0.group is 'x', not a group"),
        (("runs", 0, "config"), [], "runs.0.config is [], not an object"),
        (("runs", 0, "extra"), {}, "runs.0.extra.language is missing"),
        (("runs", 0, "facts", "trainable"), True, "runs.0.facts.trainable is True, not a number"),
        (("runs", 0, "facts", "dev_f1"), 5, "runs.0.facts.dev_f1 is 5, not a list"),
        (("scores", 0, "f1"), None, "scores.0.f1 is None, not a number"),
        (("scores", 0, "f1"), float("nan"), "scores.0.f1 is nan, not a number"),
        (("scores", 0, "per_class"), {"NOUN": {"f1": 1.0}}, "scores.0.per_class.NOUN.support is missing"),
        (("scores", 0, "run"), "x", "scores.0 does not fit the rest: its run, words or tags"),
        (("scores", 1, "tags"), "..", "scores.1 does not fit the rest: its run, words or tags"),
        (("scores", 1, "tags"), 5, "scores.1.tags is 5, not text"),
        (("tags", "a"), MISSING, "gold.0 does not fit the rest: its run, words or tags"),
        (("gold", 0, "words"), ["x"], "gold.0 does not fit the rest: its run, words or tags"),
        (("analyses", "mcnemar", 0, "only_zgul"), "5", "analyses.mcnemar.0.only_zgul is '5', not a count"),
        (("analyses", "examples", 0, "tags", "CPG"), [], "analyses.examples.0 does not fit the rest"),
        (("meta", "protocol", "limit"), "5", "meta.protocol.limit is '5', not a number"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_an_error_names_the_field_of_an_export(tiny_export, tmp_path, place, value, problem):
    path = tmp_path / "export.json.gz"
    path.write_bytes(gzip.compress(json.dumps(changed(tiny_export, place, value)).encode()))
    with pytest.raises(ZgulError) as caught:
        write_report(path, tmp_path / "report", ["md"])
    assert f"{path} is not an export of results ({problem}" in str(caught.value)


def test_a_report_leaves_out_what_scores_that_are_missing_would_show(tiny_export, tmp_path):
    """The tables of EM compare rows with each other."""
    rows = {score["row"] for score in tiny_export["scores"]}
    for row in rows:
        scores = [score for score in tiny_export["scores"] if score["row"] != row]
        (tmp_path / "export.json").write_text(json.dumps(tiny_export | {"scores": scores}))
        assert text_files(open_results(tmp_path / "export.json"))


def markdown_sections(page) -> dict[str, str]:
    return dict(part.split("\n", 1) for part in write_markdown(page).split("\n## ")[1:])


def test_the_committed_report_is_what_its_export_gives():
    """No number in it was typed by hand. Files earlier-NAME.json.gz beside the export are the earlier protocols."""
    earlier = {path.name[8:-8].replace("-", " "): open_results(path) for path in COMMITTED.glob("earlier-*.json.gz")}
    frame = open_results(COMMITTED / "export.json.gz")
    made = text_files(frame, before=earlier)
    pages = {name.replace("index", "report"): page for name, page in build_report(frame, earlier).items()}
    made |= {f"{name}.md": write_markdown(page).encode() for name, page in pages.items()}  # with figures
    for name, content in made.items():
        assert (COMMITTED / name).read_bytes() == content, f"{name} is not what `zgul report` writes"
    there = {path.relative_to(COMMITTED).as_posix() for kind in ("*.md", "*.tex") for path in COMMITTED.rglob(kind)}
    assert there - {"README.md"} == set(made)
    for name, page in build_report(frame, earlier).items():
        page_file = COMMITTED / f"{name}.html"
        if page_file.is_file():  # but for the figures, which depend on the version of matplotlib
            assert without_figures(page_file.read_text(encoding="utf-8")) == write_html(page, no_figures)


def test_an_export_of_the_first_format_gives_the_report_of_the_cut_protocol():
    """This export has neither predictions nor sentences, and a part that is no longer reported."""
    export = COMMITTED / "earlier-cut-protocol.json.gz"
    assert '"format": 1,' in gzip.decompress(export.read_bytes()).decode()
    frame = open_results(export)
    pages = build_report(frame)
    text = write_markdown(pages["index"])
    assert "| ZGUL is first, Germanic | does not hold | 51.3 | CPG 52.1 | −0.8 | −1.6 to −0.2 |" in text
    assert "| treated |" not in text and side_by_side(frame) is None and len(pages) == 1 + 15
    assert "![" in text and "![" not in write_markdown(pages["index"], figures=False)
    folder = COMMITTED.parent / "cut-protocol"
    made, kept = markdown_sections(pages["index"]), (folder / "report.md").read_text(encoding="utf-8")
    parts = dict(part.split("\n", 1) for part in kept.split("\n## ")[1:])
    left_out = {title for title, content in made.items() if content.strip().startswith("No results yet")}
    assert list(parts) == [title for title in made if title not in left_out | {"Relatedness"}]
    for title, content in parts.items():
        assert content.strip() == made[title].strip(), title
    assert set(re.findall(r"\]\((figures/[^)]+)\)", kept)) == {f"figures/{p.name}" for p in folder.glob("figures/*")}


def test_the_committed_export_becomes_a_folder_of_results_again(tmp_path):
    """docs/results/README.md says how, in its first block of Python. From the folder, experiments continue."""
    page = (COMMITTED.parent / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, flags=re.S)[1]
    place = COMMITTED / "export.json.gz"
    exec(code.replace("docs/results/paper/export.json.gz", str(place)).replace('"results"', repr(str(tmp_path))), {})
    store, export = Store(tmp_path), Export(place)
    assert store.meta == export.meta and store.runs() == export.runs() and store.scores() == export.scores()
    for score in export.scores(row="ZGUL"):
        assert store.predictions(score.run, score.row, score.language) == export.predictions(
            score.run, score.row, score.language
        )


def no_figures(_figure) -> dict[str, bytes]:
    return {"svg": b""}


def without_figures(text: str) -> str:
    return re.sub(r"base64,[^\"]*", "base64,", text)


def test_html_but_for_figures_does_not_depend_on_matplotlib(written, small):
    report = build_report(open_results(small.folder))
    text = (written / "index.html").read_text(encoding="utf-8")
    assert without_figures(text) == write_html(report["index"], no_figures)


def test_the_commands_are_listed_at_the_end(tmp_path):
    store = Store(tmp_path, create=True)
    store.note(protocol={"limit": 96}, commands=["a", "b", "a"])
    text = write_markdown(build_report(Frame(store))["index"])
    assert "Commands, in their order:\n\n- `a`\n- `b`\n" in text
    assert "Protocol of the last command: limit 96" in text


class Data(HTMLParser):
    """The JSON inside of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.text = False, ""

    def handle_starttag(self, tag, attrs):
        self.inside = tag == "script" and dict(attrs).get("id") == "data"

    def handle_data(self, data):
        self.text += data if self.inside else ""


def test_the_page_of_two_systems_holds_sentences_gold_and_tags(invented):
    parser = Data()
    parser.feed(side_by_side(open_results(invented.folder)))
    data = json.loads(parser.text)
    assert list(data["languages"]) == ["fo", "got", "gsw", "ha", "ig", "rw", "lg", "luo", "pcm"]

    def decoded(line: str) -> list[list[str]]:
        return [[data["tags"][letter] for letter in sentence] for sentence in line.split(" ")]

    (cpg,) = invented.runs(part="zero-shot", group="african", method="cpg", seed=0)
    luo = data["languages"]["luo"]
    assert luo["words"] == [sentence.words for sentence in invented.gold("african", "luo")]
    assert decoded(luo["gold"]) == [sentence.tags for sentence in invented.gold("african", "luo")]
    assert decoded(luo["systems"]["CPG"]) == invented.predictions(cpg.hash, "CPG", "luo")
    assert set(luo["systems"]) >= {"SFT-En", "ZGUL", "ZGUL w/o EM"}


def test_a_word_cannot_end_the_script_of_the_page(tmp_path):
    store = invented_results.fill(tmp_path, groups=("germanic",), seeds=(0,), parts=("zero-shot",), sentences=4)
    gold = store.gold("germanic", "fo")
    gold[0].words[0] = "</script><!--"
    store.add_gold("germanic", "fo", gold)
    page = side_by_side(open_results(tmp_path))
    assert "</script><!--" not in page
    parser = Data()
    parser.feed(page)
    assert json.loads(parser.text)["languages"]["fo"]["words"][0][0] == "</script><!--"


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
    cells = [Cell(text="*|*"), Cell(1234.5, 0.5, 7.0, bold=True, mark="*")]
    heads = [("", "a|b_c"), ("", "x & y")]
    table = ReportTable("odd", "Caption with `code_of` 50%", "", heads, {"MADX^multi-Rel": cells}, set())
    markdown = markdown_table(table)
    assert r"a\|b\_c" in markdown and r"\*\|\*" in markdown
    assert r"**1,234.5** ± 0.5\* (7.0)" in markdown
    latex = latex_table(table)
    assert r"x \& y" in latex and r"\texttt{code\_of} 50\%" in latex and "MADX$^{multi}$-Rel" in latex
    assert r"\textbf{1,234.5}$_{\pm0.5}$$^*$ {\scriptsize (7.0)}" in latex


@pytest.fixture
def style():
    library = pytest.importorskip("matplotlib", reason="figures need matplotlib: pip install 'zgul[plots]'")
    return library.rc_params_from_file(figures.STYLE, use_default_template=False)


def luminance(colour) -> float:
    """As WCAG defines it."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_heat_maps_darken_evenly_and_their_numbers_can_be_read(style):
    places = [step / 200 for step in range(201)]
    light = [luminance(figures.matplotlib().colormaps[style["image.cmap"]](place)) for place in places]
    assert light == sorted(light, reverse=True)
    for place, value in zip(places, light, strict=True):
        ink = 0.0 if place <= figures.DARK else 1.0
        assert (max(ink, value) + 0.05) / (min(ink, value) + 0.05) >= 4.5  # WCAG AA


def test_lines_differ_without_colour(style):
    lines = style["axes.prop_cycle"].by_key()
    assert len({*lines["marker"]}) == len({*map(str, lines["linestyle"])}) == len(lines["color"]) == 5
