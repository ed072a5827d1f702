"""The report as Markdown: ours with its deviation, the paper's number in brackets."""

from __future__ import annotations

from zgul.paper.report.document import Block, CellStyle, Figure, Page, ReportTable


def write_markdown(page: Page) -> str:
    """A page. Its figures are links to files in the folder ``figures``."""
    facts = "\n".join(f"- **{name}**: {value}" for name, value in page.facts)
    links = ", ".join(f"[{title}]({name}.md)" for title, name in page.links)
    sections = ["\n\n".join([f"## {section.title}", *map(_block, section.blocks)]) for section in page.sections]
    head = [f"# {page.title}", f"Pages: {links}" if links else ""]
    parts = [*head, *sections[: page.opening], facts, *sections[page.opening :]]
    return "\n\n".join(filter(None, parts)) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, ReportTable):
        return markdown_table(block)
    if isinstance(block, Figure):
        return f"![{block.name}](figures/{block.name}.png)\n\n*{block.caption}*"
    return block if isinstance(block, str) else "\n".join(f"- {item}" for item in block)


def markdown_table(table: ReportTable) -> str:
    """One table with its caption above."""
    heads = [_escape(f"{column.group}: {column.title}" if column.group else column.title) for column in table.columns]
    texts = [
        all(cell.text or cell.empty for cell in cells) for cells in zip(*(r.cells for r in table.rows), strict=True)
    ]
    rule = " | ".join("---" if text else "---:" for text in [True, *texts])
    lines = [f"| {' | '.join([_escape(table.corner), *heads])} |", f"| {rule} |"]
    lines += [f"| {' | '.join([_escape(row.title), *map(CELLS.show, row.cells)])} |" for row in table.rows]
    return f"**{table.caption}**\n\n" + "\n".join(lines)


def _escape(text: str) -> str:
    """Words of a sentence may be table syntax."""
    for character in "\\|*_`<":
        text = text.replace(character, "\\" + character)
    return text


CELLS = CellStyle(_escape, bold="**{}**", std=" ± {}", paper=" ({})")  # **76.9** ± 0.1 (77.0)
