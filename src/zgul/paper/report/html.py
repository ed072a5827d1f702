"""The report as HTML files that need nothing else: figures inside, tables that sort by a click on a heading."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable
from pathlib import Path

from zgul.paper.report.document import Block, Cell, CellStyle, Figure, Page, ReportTable, Section, TableRow

STYLE, SCRIPT = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
SKELETON = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style></head><body><main>
<h1>{title}</h1>
{body}
</main><script>{script}</script></body></html>
"""
Draw = Callable[[Figure], bytes]  # a figure as SVG


def write_html(page: Page, draw: Draw) -> str:
    """A page as one file."""
    contents = " ".join(f'<a href="#{s.anchor}">{html.escape(s.title)}</a>' for s in page.sections)
    links = " · ".join(f'<a href="{name}.html">{html.escape(title)}</a>' for title, name in page.links)
    facts = "".join(f"<dt>{html.escape(name)}</dt><dd>{_inline(value)}</dd>" for name, value in page.facts)
    parts = [f"<nav>{contents}</nav>", f"<p>Pages: {links}</p>" if links else ""]
    sections = [_section(section, draw) for section in page.sections]
    parts += [*sections[: page.opening], f"<dl>{facts}</dl>", *sections[page.opening :]]
    parts.append("<footer>Written by zgul report. Click a heading of a table to sort by it.</footer>")
    body = "\n".join(parts)
    return SKELETON.format(title=html.escape(page.title), style=STYLE, script=SCRIPT, body=body)


def _section(section: Section, draw: Draw) -> str:
    body = "\n".join(_block(block, draw) for block in section.blocks)
    return f'<section id="{section.anchor}"><h2>{html.escape(section.title)}</h2>\n{body}\n</section>'


def _block(block: Block, draw: Draw) -> str:
    if isinstance(block, ReportTable):
        return _table(block)
    if isinstance(block, Figure):
        image = f"data:image/svg+xml;base64,{base64.b64encode(draw(block)).decode()}"
        alt = html.escape(block.caption, quote=True)
        return f'<figure><img alt="{alt}" src="{image}"><figcaption>{_inline(block.caption)}</figcaption></figure>'
    if isinstance(block, tuple):
        return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in block) + "</ul>"
    return f"<p>{_inline(block)}</p>"


def _table(table: ReportTable) -> str:
    kind, sort, focus = (' class="sortable"', "sort", ' tabindex="0"') if table.sortable else ("", "", "")
    head = ""
    if spans := table.column_groups:
        cells = "".join(f'<th class="span" colspan="{width}">{_title(title)}</th>' for title, width in spans)
        head = f'<tr><th class="corner"></th>{cells}</tr>'
    titles = [f'<th class="{sort}"{focus}>{_title(table.corner)}</th>']
    for index, column in enumerate(table.columns):
        texts = all(row.cells[index].text or row.cells[index].empty for row in table.rows)
        names = " ".join(filter(None, (sort, "bar" if column.rule else "", "left" if texts else "")))
        titles.append(f'<th class="{names}"{focus}>{_title(column.title)}</th>')
    rows = "\n".join(_row(table, row) for row in table.rows)
    return (
        f'<figure id="{table.name}"><figcaption>{_inline(table.caption)}</figcaption><div class="scroll">'
        f"<table{kind}><thead>{head}<tr>{''.join(titles)}</tr></thead><tbody>\n{rows}\n</tbody></table></div></figure>"
    )


def _row(table: ReportTable, row: TableRow) -> str:
    cells = "".join(_cell(cell, column.rule) for cell, column in zip(row.cells, table.columns, strict=True))
    kind = ' class="rule"' if row.rule else ""
    return f"<tr{kind}><th>{_title(row.title)}</th>{cells}</tr>"


def _cell(cell: Cell, rule: bool) -> str:
    names = ["bar"] * rule + ["text"] * bool(cell.text) + ["wide"] * (len(cell.text) > 40)
    value = f' data-value="{cell.value}"' if cell.value is not None else ""
    kind = f' class="{" ".join(names)}"' if names else ""
    return f"<td{kind}{value}>{CELLS.show(cell)}</td>"


def _title(text: str) -> str:
    """MADX^multi gets a raised "multi"."""
    return html.escape(text).replace("^multi", "<sup>multi</sup>")


def _inline(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", _title(text))
    text = re.sub(r"\[([^]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', text)
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)


CELLS = CellStyle(_title, bold="<b>{}</b>", std='<span class="sd"> ±{}</span>', paper="<small>paper {}</small>")
