"""The report as Markdown: ours with its deviation, the paper's number in brackets."""

from __future__ import annotations

from zgul.experiments.report.document import Block, Cell, Document, Figure, Items, Prose, Table


def write(document: Document, figures: str = "figures") -> str:
    """The document; figures are linked as files of the folder ``figures``."""
    parts = [f"# {document.title}"]
    if document.facts:
        parts.append("\n".join(f"- **{name}**: {value}" for name, value in document.facts))
    if document.links:
        parts.append("Pages: " + ", ".join(f"[{title}]({name}.md)" for title, name in document.links))
    for section in document.sections:
        parts.append(f"## {section.title}")
        parts.extend(_block(block, figures) for block in section.blocks)
    return "\n\n".join(parts) + "\n"


def _block(block: Block, figures: str) -> str:
    if isinstance(block, Table):
        return table(block)
    if isinstance(block, Figure):
        return f"![{block.name}]({figures}/{block.name}.png)\n\n*{block.caption}*"
    if isinstance(block, Items):
        return "\n".join(f"- {item}" for item in block.items)
    assert isinstance(block, Prose)
    return block.text


def table(table: Table) -> str:
    """One table with its caption above."""
    heads = [_escape(f"{column.group}: {column.title}" if column.group else column.title) for column in table.columns]
    lines = [f"| {' | '.join([_escape(table.corner), *heads])} |", f"| --- |{' ---: |' * len(heads)}"]
    lines += [f"| {' | '.join([_escape(row.title), *map(cell, row.cells)])} |" for row in table.rows]
    return f"**{table.caption}**\n\n" + "\n".join(lines)


def cell(cell: Cell) -> str:
    """76.9 ± 0.1 (77.0), the best in bold."""
    if cell.empty:
        return ""
    if cell.text:
        return f"**{_escape(cell.text)}**" if cell.bold else _escape(cell.text)
    own = cell.number(cell.value) + (f" ± {cell.number(cell.std)}" if cell.std is not None else "") + cell.mark
    own = f"**{own}**" if cell.bold else own
    spread = f" ± {cell.number(cell.paper_std)}" if cell.paper_std is not None else ""
    return own if cell.paper is None else f"{own} ({cell.number(cell.paper)}{spread})"


def _escape(text: str) -> str:
    """Words of a sentence may be table syntax."""
    for character in "\\|*_`<":
        text = text.replace(character, "\\" + character)
    return text
