"""The report as one HTML file that needs nothing else: figures inside, tables that sort by a click on a heading."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable

from zgul.experiments.report.document import Block, Cell, Document, Figure, Items, Prose, Row, Section, Table

STYLE = """
:root { color-scheme: light; --ink: #1b1f24; --soft: #5b6470; --line: #d5dae0; --tint: #f4f6f8; --link: #0b57a4; }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; color: var(--ink);
  background: #fff; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 28px; line-height: 1.2; margin: 8px 0 16px; }
h2 { font-size: 21px; margin: 44px 0 10px; padding-top: 12px; border-top: 2px solid var(--ink); }
p, li { max-width: 80ch; }
li { margin: 4px 0; }
a { color: var(--link); }
sup { line-height: 0; font-size: 75%; }
code { background: var(--tint); padding: 1px 4px; border-radius: 3px; font-size: 13px; overflow-wrap: anywhere; }
nav { background: var(--tint); padding: 10px 16px; border-radius: 6px; }
nav a { margin-right: 14px; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 0 0 18px; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 18px 0 26px; }
figure img { max-width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: 14px; max-width: 90ch; margin: 6px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; border-top: 2px solid var(--ink);
  border-bottom: 2px solid var(--ink); }
th, td { padding: 4px 10px; text-align: right; vertical-align: top; white-space: nowrap; }
th:first-child { text-align: left; position: sticky; left: 0; background: #fff; }
thead th { border-bottom: 1px solid var(--ink); vertical-align: bottom; white-space: normal; }
thead th.corner { border-bottom: 0; }
thead th.span { text-align: center; border-bottom: 1px solid var(--line); }
tbody th { font-weight: 400; }
tr.rule > * { border-top: 1px solid var(--ink); }
.left, td.text { text-align: left; }
td.text.wide { white-space: normal; min-width: 16em; }
.bar { border-left: 1px solid var(--line); }
td small { display: block; color: var(--soft); font-size: 12px; line-height: 1.2; }
td .sd { color: var(--soft); font-size: 12px; }
th.sort { cursor: pointer; }
th.sort:hover, th.sort:focus { text-decoration: underline; }
th[aria-sort=descending]::after { content: " ▾"; }
th[aria-sort=ascending]::after { content: " ▴"; }
tbody tr:hover > * { background: var(--tint); }
footer { color: var(--soft); margin-top: 50px; font-size: 13px; }
@media print { nav { display: none; } .scroll { overflow: visible; } h2 { break-after: avoid; } }
"""

# a click sorts by the column (numbers from the highest, texts from A), a second turns the order, a third undoes it
SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], first = [...body.rows];
  const heads = [...table.querySelectorAll("th.sort")];
  heads.forEach((head, column) => {
    const sort = () => {
      const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const numbers = first.some(row => row.cells[column].dataset.value);
      const states = numbers ? ["descending", "ascending", "none"] : ["ascending", "descending", "none"];
      const state = states[(states.indexOf(head.ariaSort ?? "none") + 1) % 3];
      heads.forEach(other => other.ariaSort = "none");
      head.ariaSort = state;
      const order = (a, b) => numbers ? (key(a) || -Infinity) - (key(b) || -Infinity) : key(a).localeCompare(key(b));
      const sign = state === "descending" ? -1 : 1;
      body.append(...(state === "none" ? first : [...first].sort((a, b) => sign * order(a, b))));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
}
"""


Draw = Callable[[Figure], bytes]  # a figure as SVG


def write(document: Document, draw: Draw) -> str:
    """The whole file."""
    contents = " ".join(f'<a href="#{s.anchor}">{html.escape(s.title)}</a>' for s in document.sections)
    pages = " · ".join(f'<a href="{name}.html">{html.escape(title)}</a>' for title, name in document.links)
    facts = "".join(f"<dt>{html.escape(name)}</dt><dd>{_inline(value)}</dd>" for name, value in document.facts)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(document.title)}</title>",
            f"<style>{STYLE}</style></head><body><main>",
            f"<h1>{html.escape(document.title)}</h1>",
            f"<dl>{facts}</dl>" if facts else "",
            f"<nav>{contents}</nav>",
            f"<p>Pages: {pages}</p>" if pages else "",
            *(_section(section, draw) for section in document.sections),
            "<footer>Written by zgul report. Click a heading of a table to sort by it.</footer>",
            f"</main><script>{SCRIPT}</script></body></html>",
            "",
        ]
    )


def _section(section: Section, draw: Draw) -> str:
    body = "\n".join(_block(block, draw) for block in section.blocks)
    return f'<section id="{section.anchor}"><h2>{html.escape(section.title)}</h2>\n{body}\n</section>'


def _block(block: Block, draw: Draw) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Figure):
        image = base64.b64encode(draw(block)).decode()
        alt = html.escape(block.caption, quote=True)
        return (
            f'<figure><img alt="{alt}" src="data:image/svg+xml;base64,{image}">'
            f"<figcaption>{_inline(block.caption)}</figcaption></figure>"
        )
    if isinstance(block, Items):
        return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in block.items) + "</ul>"
    assert isinstance(block, Prose)
    return f"<p>{_inline(block.text)}</p>"


def _table(table: Table) -> str:
    kind = ' class="sortable"' if table.sortable else ""
    head = ""
    if spans := table.column_groups:
        cells = "".join(f'<th class="span" colspan="{width}">{_title(title)}</th>' for title, width in spans)
        head = f'<tr><th class="corner"></th>{cells}</tr>'
    sort = ' class="sort" tabindex="0"' if table.sortable else ""
    titles = [f"<th{sort}>{_title(table.corner)}</th>"]
    for index, column in enumerate(table.columns):
        names = [name for name, used in (("sort", table.sortable), ("bar", column.rule)) if used]
        names += ["left"] if all(row.cells[index].text or row.cells[index].empty for row in table.rows) else []
        focus = ' tabindex="0"' if table.sortable else ""
        titles.append(f'<th class="{" ".join(names)}"{focus}>{_title(column.title)}</th>')
    head += f"<tr>{''.join(titles)}</tr>"
    rows = "\n".join(_row(table, row) for row in table.rows)
    return (
        f'<figure id="{table.name}"><figcaption>{_inline(table.caption)}</figcaption><div class="scroll">'
        f"<table{kind}><thead>{head}</thead><tbody>\n{rows}\n</tbody></table></div></figure>"
    )


def _row(table: Table, row: Row) -> str:
    cells = "".join(_cell(cell, column.rule) for cell, column in zip(row.cells, table.columns, strict=True))
    kind = ' class="rule"' if row.rule else ""
    return f"<tr{kind}><th>{_title(row.title)}</th>{cells}</tr>"


def _cell(cell: Cell, rule: bool) -> str:
    names = ["bar"] if rule else []
    if cell.text:
        names += ["text", "wide"] if len(cell.text) > 40 else ["text"]
    value = f' data-value="{cell.value}"' if cell.value is not None else ""
    kind = f' class="{" ".join(names)}"' if names else ""
    return f"<td{kind}{value}>{_content(cell)}</td>"


def _content(cell: Cell) -> str:
    if cell.empty:
        return ""
    own = html.escape(cell.text) if cell.text else cell.number(cell.value)
    own = f"<b>{own}</b>" if cell.bold else own
    own += html.escape(cell.mark)
    own += f'<span class="sd"> ±{cell.number(cell.std)}</span>' if cell.std is not None else ""
    spread = f" ±{cell.number(cell.paper_std)}" if cell.paper_std is not None else ""
    return own if cell.paper is None else f"{own}<small>paper {cell.number(cell.paper)}{spread}</small>"


def _title(text: str) -> str:
    """Titles of rows and columns: MADX^multi with a raised "multi"."""
    return html.escape(text).replace("^multi", "<sup>multi</sup>")


def _inline(text: str) -> str:
    text = _title(text)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
