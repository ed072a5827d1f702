"""The parts of a report (pages with prose, tables and figures), and how they are written as HTML, Markdown and LaTeX.

HTML pages need no other file, and LaTeX tables look like the paper's. Captions, rules and departures are in
``texts.txt``, columns and compared rows in ``tables.toml``.
"""

import base64
import html
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from zgul.evaluation import MeanStd

_FILE = Path(__file__).with_name("texts.txt").read_text(encoding="utf-8")
_TEXTS: dict[str, str] = dict(re.findall(r"^\[(.+)\]\n(.+)$", _FILE, flags=re.M))
TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))
_LAST = ("Avg", "Support", "Paper")  # columns that a line sets apart
_PAGE, _STYLE, _SCRIPT, _LATEX = (
    Path(__file__).with_name(name).read_text(encoding="utf-8")
    for name in ("page.html", "page.css", "page.js", "tables.tex")
)
_SPECIAL = str.maketrans(TABLES["latex"])


@dataclass(frozen=True)
class Cell:
    """A number of ours with its deviation over seeds and the paper's number, or a text."""

    value: float | None = None
    std: float | None = None
    paper: float | None = None
    paper_std: float | None = None
    text: str = ""  # instead of a number
    bold: bool = False
    mark: str = ""  # follows the number
    digits: int = 1

    @property
    def is_text(self) -> bool:
        return self.value is None and self.paper is None

    def number(self, value: float | None) -> str:
        """A number in the form that all writers show."""
        return "–" if value is None else f"{round(value, self.digits) + 0.0:,.{self.digits}f}".replace("-", "−")


Item = Cell | MeanStd | str | float | None  # what a cell is made from
Head = str | tuple[str, str]  # a column's title, or its group and title


@dataclass(frozen=True)
class ReportTable:
    """Rows by columns. ``name`` is the name of its file."""

    name: str
    caption: str
    corner: str  # the heading above the titles of the rows
    heads: list[tuple[str, str]]  # group and title; neighbours of one group share one heading
    rows: dict[str, list[Cell]]  # by title
    rules: set[str]  # titles of the rows that have a line above them

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The headings over the columns and how many columns each spans; empty if there are none."""
        spans = [(group, len(list(heads))) for group, heads in groupby(group for group, _ in self.heads)]
        return spans if any(group for group, _ in spans) else []

    @property
    def bars(self) -> list[bool]:
        """The columns that have a line before them: the first of each group, and averages."""
        before = ["", *(group for group, _ in self.heads)]
        return [group != last or title in _LAST for (group, title), last in zip(self.heads, before, strict=False)]

    @property
    def texts(self) -> list[bool]:
        """The columns without numbers."""
        return [all(cell.is_text for cell in column) for column in zip(*self.rows.values(), strict=True)]


@dataclass(frozen=True)
class Figure:
    """A figure. It is drawn only when a writer asks for it."""

    name: str
    caption: str
    draw: Callable[[], Any]  # gives a figure of matplotlib


# A text is a paragraph, a tuple of texts a list. Their only markup is `code`, **bold** and [links](page).
Block = ReportTable | Figure | str | tuple[str, ...]
Draw = Callable[[Figure], dict[str, bytes]]  # a figure as files: kind -> content


@dataclass(frozen=True)
class Page:
    """The whole report, or the page of one language."""

    title: str
    sections: dict[str, list[Block]]
    links: dict[str, str]  # other pages: file name without suffix -> title


def text(name: str, **words: object) -> str:
    """The text of this name with its {words} filled in."""
    return _TEXTS[name].format(**{"beside": _TEXTS["beside"], **words})


def group_title(name: str) -> str:
    return "-".join(part.capitalize() for part in name.split("-"))


def listed(value: object) -> str:
    """Values with commas between them; a single value as it is."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    return ", ".join(map(listed, value))


def cell(item: Item, paper: float | None = None, digits: int = 1) -> Cell:
    """A text, a number, or a mean with its deviation, beside the paper's number. Whole numbers have no digits."""
    if isinstance(item, Cell):
        return item
    if isinstance(item, str):
        return Cell(text=item)
    if isinstance(item, MeanStd):
        return Cell(item.mean, item.std, paper, digits=digits)
    return Cell(item, paper=paper, digits=0 if isinstance(item, int) else digits)


def table(
    name: str,
    rows: Mapping[str, Iterable[Item]],
    heads: Iterable[Head] | None = None,
    words: Mapping[str, object] | None = None,
    *,
    rules: Iterable[str] = (),
    digits: int = 1,
    best: bool = False,
) -> ReportTable | None:
    """Make a table, or None if it has no rows. ``name`` names its caption and, with the part after a slash, its file.

    The first heading is that of the titles of the rows. The default headings are those of ``tables.toml``.
    ``best`` sets the highest number of each column in bold.
    """
    cells = {title: [cell(item, digits=digits) for item in items] for title, items in rows.items()}
    if not cells:
        return None
    if best:
        columns = [bold_best(column) for column in zip(*cells.values(), strict=True)]
        cells = {title: list(row) for title, row in zip(cells, zip(*columns, strict=True), strict=True)}
    kind = name.split("/")[0]
    given = TABLES["heads"][kind] if heads is None else heads
    corner, *titles = [("", head) if isinstance(head, str) else (head[0], head[1]) for head in given]
    rules = {*rules} - {next(iter(cells))}
    return ReportTable(name.replace("/", "-"), text(kind, **(words or {})), corner[1], titles, cells, rules)


def bold_best(cells: Iterable[Cell]) -> list[Cell]:
    """Make the highest printed number bold. Equal numbers are all bold; zeros never are."""
    printed = [(cell, round(cell.value or 0.0, cell.digits)) for cell in cells]
    best = max(value for _, value in printed)
    return [replace(cell, bold=value == best != 0.0) for cell, value in printed]


def _show(cell: Cell, escape: Callable[[str], str], bold: str, std: str, paper: str) -> str:
    """Write a cell in a format, which escapes texts and has templates for bold, deviations and the paper's numbers."""
    if cell.is_text and not cell.text:
        return ""
    stds = ["" if value is None else std.format(cell.number(value)) for value in (cell.std, cell.paper_std)]
    number = escape(cell.text or cell.number(cell.value))
    own = (bold.format(number) if cell.bold else number) + stds[0] + escape(cell.mark)
    return own if cell.paper is None else own + paper.format(escape(cell.number(cell.paper)) + stds[1])


def html_file(title: str, body: str, script: str = "") -> str:
    """A page as one file."""
    return _PAGE.format(title=html.escape(title), style=_STYLE, script=script, body=body)


def write_html(page: Page, draw: Draw) -> str:
    """A page of the report with its figures."""
    anchors = {title: re.sub(r"\W+", "-", title.lower()).strip("-") for title in page.sections}
    contents = " ".join(f'<a href="#{anchor}">{html.escape(title)}</a>' for title, anchor in anchors.items())
    links = " · ".join(f'<a href="{name}.html">{html.escape(title)}</a>' for name, title in page.links.items())
    parts = [f"<nav>{contents}</nav>", f"<p>Pages: {links}</p>"]
    for title, blocks in page.sections.items():
        parts.append(f'<section id="{anchors[title]}"><h2>{html.escape(title)}</h2>')
        parts += [*(_html_block(block, draw) for block in blocks), "</section>"]
    parts.append("<footer>Written by zgul report. Click a heading of a table to sort by it.</footer>")
    return html_file(page.title, "\n".join(parts), _SCRIPT)


def _html_block(block: Block, draw: Draw) -> str:
    if isinstance(block, ReportTable):
        return _html_table(block)
    if isinstance(block, Figure):
        image = f"data:image/svg+xml;base64,{base64.b64encode(draw(block)['svg']).decode()}"
        caption = f"<figcaption>{_html_prose(block.caption)}</figcaption>"
        return f'<figure><img alt="{html.escape(block.caption)}" src="{image}">{caption}</figure>'
    if isinstance(block, tuple):
        return "<ul>" + "".join(f"<li>{_html_prose(item)}</li>" for item in block) + "</ul>"
    return f"<p>{_html_prose(block)}</p>"


def _html_table(table: ReportTable) -> str:
    spans = "".join(f'<th class="span" colspan="{width}">{_html(group)}</th>' for group, width in table.spans)
    heads = zip(table.heads, table.bars, table.texts, strict=True)
    titles = "".join(f"<th{_kinds(bar=bar, left=text)}>{_html(title)}</th>" for (_, title), bar, text in heads)
    lines = [f'<figure id="{table.name}"><figcaption>{_html_prose(table.caption)}</figcaption><div class="scroll">']
    lines.append(f"<table{_kinds(sortable=not all(table.texts))}><thead>")
    lines += [f'<tr><th class="corner"></th>{spans}</tr>'] if spans else []
    lines.append(f"<tr><th>{_html(table.corner)}</th>{titles}</tr></thead><tbody>")
    for title, cells in table.rows.items():
        line = f"<tr{_kinds(rule=title in table.rules)}><th>{_html(title)}</th>"
        for cell, bar in zip(cells, table.bars, strict=True):
            value = "" if cell.value is None else f' data-value="{cell.value}"'
            kinds = _kinds(bar=bar, text=cell.is_text, wide=len(cell.text) > 40)
            line += f"<td{kinds}{value}>{_html_cell(cell)}</td>"
        lines.append(f"{line}</tr>")
    return "\n".join([*lines, "</tbody></table></div></figure>"])


def _kinds(**names: bool) -> str:
    """The class attribute with the names that are true."""
    true = " ".join(name for name, value in names.items() if value)
    return f' class="{true}"' if true else ""


def _html(text: str) -> str:
    """Escape a text, and raise the "multi" of MADX^multi."""
    return html.escape(text).replace("^multi", "<sup>multi</sup>")


def _html_prose(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", _html(text))
    text = re.sub(r"\[([^]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', text)
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)


_html_cell = partial(_show, escape=_html, bold="<b>{}</b>", std="<i> ±{}</i>", paper="<small>paper {}</small>")


def write_markdown(page: Page, figures: bool = True) -> str:
    """A page. Its figures are links to files in the folder ``figures``, or left out."""
    links = ", ".join(f"[{title}]({name.replace('index', 'report')}.md)" for name, title in page.links.items())
    parts = [f"# {page.title}", *([f"Pages: {links}"] if links else [])]
    for title, blocks in page.sections.items():
        shown = [block for block in blocks if figures or not isinstance(block, Figure)]
        parts += [f"## {title}", *map(_markdown_block, shown)] if shown else []
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Block) -> str:
    if isinstance(block, ReportTable):
        return markdown_table(block)
    if isinstance(block, Figure):
        return f"![{block.name}](figures/{block.name}.png)\n\n*{block.caption}*"
    return block if isinstance(block, str) else "\n".join(f"- {item}" for item in block)


def markdown_table(table: ReportTable) -> str:
    """One table with its caption above."""
    heads = [_markdown(f"{group}: {title}" if group else title) for group, title in table.heads]
    lines = [[_markdown(table.corner), *heads], ["---", *("---" if text else "---:" for text in table.texts)]]
    lines += [[_markdown(title), *map(_markdown_cell, cells)] for title, cells in table.rows.items()]
    return f"**{table.caption}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _markdown(text: str) -> str:
    """Escape characters that mean something in Markdown tables."""
    return re.sub(r"([\\|*_`<])", r"\\\1", text)


_markdown_cell = partial(_show, escape=_markdown, bold="**{}**", std=" ± {}", paper=" ({})")  # **76.9** ± 0.1 (77.0)


def latex_document(names: Iterable[str]) -> str:
    """A file that sets all tables, one ``\\input`` each."""
    return _LATEX + "".join(f"\\input{{{name}}}\n\\clearpage\n" for name in names) + "\\end{document}\n"


def latex_table(table: ReportTable) -> str:
    """One floating table with caption and label. A wide table is scaled to the width of the page."""
    longest = max(sum(len(cell.text) or 12 for cell in cells) for cells in table.rows.values())
    wide = len(table.heads) >= 8 or longest > 70
    spec = "l" + "".join("|l" if bar else "l" for bar in table.bars)
    lines = [r"\resizebox{\textwidth}{!}{%"] * wide + [rf"\begin{{tabular}}{{{spec}}}", r"\toprule"]
    groups = [rf"\multicolumn{{{width}}}{{c}}{{\bf {_latex(group)}}}" for group, width in table.spans]
    lines += [" & ".join(["", *groups]) + r" \\"] if groups else []
    lines += [" & ".join(map(_latex, (table.corner, *(title for _, title in table.heads)))) + r" \\", r"\midrule"]
    for title, cells in table.rows.items():
        lines += [r"\midrule"] * (title in table.rules)
        lines.append(" & ".join([_latex(title), *map(_latex_cell, cells)]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}" + "}" * wide]
    caption = re.sub(r"`([^`]*)`", r"\\texttt{\1}", _latex(table.caption))
    lines += [rf"\caption{{{caption}}}", rf"\label{{tab:{table.name}}}"]
    kind = "table*" if wide else "table"
    return "\n".join([rf"\begin{{{kind}}}[t]", r"\centering\small", *lines, rf"\end{{{kind}}}", ""])


def _latex(text: str) -> str:
    return "$^{multi}$".join(part.translate(_SPECIAL) for part in text.split("^multi"))


# \textbf{76.9}$_{\pm0.1}$ {\scriptsize (77.0)}
_latex_cell = partial(_show, escape=_latex, bold=r"\textbf{{{}}}", std=r"$_{{\pm{}}}$", paper=r" {{\scriptsize ({})}}")
