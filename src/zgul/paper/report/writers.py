"""The report as HTML (pages that need no other file), Markdown and LaTeX (tables that look like the paper's)."""

import base64
import html
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from zgul.paper.report.document import TABLES, Block, Cell, Figure, Page, ReportTable

_PAGE, _STYLE, _SCRIPT, _LATEX = (
    Path(__file__).with_name(name).read_text(encoding="utf-8")
    for name in ("page.html", "page.css", "page.js", "tables.tex")
)
_SPECIAL = str.maketrans(TABLES["latex"])
Draw = Callable[[Figure], dict[str, bytes]]  # a figure as files: kind -> content


def _show(cell: Cell, escape: Callable[[str], str], bold: str, std: str, paper: str) -> str:
    """A cell in a format, which escapes texts and has templates for bold, deviations and the paper's numbers."""
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
    """MADX^multi gets a raised "multi"."""
    return html.escape(text).replace("^multi", "<sup>multi</sup>")


def _html_prose(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", _html(text))
    text = re.sub(r"\[([^]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', text)
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)


_html_cell = partial(_show, escape=_html, bold="<b>{}</b>", std="<i> ±{}</i>", paper="<small>paper {}</small>")


def write_markdown(page: Page) -> str:
    """A page. Its figures are links to files in the folder ``figures``."""
    links = ", ".join(f"[{title}]({name.replace('index', 'report')}.md)" for name, title in page.links.items())
    parts = [f"# {page.title}", f"Pages: {links}"]
    for title, blocks in page.sections.items():
        parts += [f"## {title}", *map(_markdown_block, blocks)]
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
    """Words of a sentence may be table syntax."""
    return re.sub(r"([\\|*_`<])", r"\\\1", text)


_markdown_cell = partial(_show, escape=_markdown, bold="**{}**", std=" ± {}", paper=" ({})")  # **76.9** ± 0.1 (77.0)


def latex_document(names: Iterable[str]) -> str:
    """A file that sets all tables, one ``\\input`` each."""
    return _LATEX + "".join(f"\\input{{{name}}}\n\\clearpage\n" for name in names) + "\\end{document}\n"


def latex_table(table: ReportTable) -> str:
    """One floating table with caption and label. A wide one is set to the width of the page."""
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
