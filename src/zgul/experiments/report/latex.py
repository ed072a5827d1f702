"""The tables as LaTeX that looks like the paper's: booktabs, the best in bold, ours over the paper's number."""

from __future__ import annotations

import re

from zgul.experiments.report.document import Cell, Column, Table

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "−": r"$-$", "–": "--", "×": r"$\times$",
    "≥": r"$\geq$", "≤": r"$\leq$", "<": r"$<$", ">": r"$>$", "*": r"$^*$", "…": r"\dots{}",
}  # fmt: skip
WIDE, LINE = 8, 100  # columns, and characters of a line, from which a table is set to the page's width

PREAMBLE = r"""% Tables of a zgul report. Compile with xelatex or lualatex (examples are in several scripts).
\documentclass[10pt]{article}
\usepackage[margin=15mm,landscape]{geometry}
\usepackage{booktabs,graphicx,fontspec}
% a font that has them all, Gothic and Ethiopic included; any other with your scripts will do
\IfFontExistsTF{FreeSerif}{\setmainfont{FreeSerif}}{}
\begin{document}
"""


def document(names: list[str]) -> str:
    """A file that sets all tables, one ``\\input`` each."""
    return PREAMBLE + "".join(f"\\input{{{name}}}\n\\clearpage\n" for name in names) + "\\end{document}\n"


def table(table: Table) -> str:
    """One floating table with caption and label."""
    wide = len(table.columns) >= WIDE or _characters(table) > LINE
    star = "*" if wide else ""
    spec = "l" + "".join(map(_column, table.columns, (None, *table.columns)))
    body = [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", *_heads(table), r"\midrule"]
    for row in table.rows:
        if row.rule:
            body.append(r"\midrule")
        body.append(" & ".join([_escape(row.title), *map(cell, row.cells)]) + r" \\")
    body += [r"\bottomrule", r"\end{tabular}"]
    if wide:
        body = [r"\resizebox{\textwidth}{!}{%", *body, "}"]
    return "\n".join(
        [
            rf"\begin{{table{star}}}[t]",
            r"\centering\small",
            *body,
            rf"\caption{{{_caption(table.caption)}}}",
            rf"\label{{tab:{table.name}}}",
            rf"\end{{table{star}}}",
            "",
        ]
    )


def _column(column: Column, before: Column | None) -> str:
    """Two lines between groups, as the paper has them."""
    new_group = before is not None and before.group != column.group
    return "l" if not column.rule else "||l" if new_group else "|l"


def _characters(table: Table) -> int:
    """How long the longest line is, about."""
    columns = zip(*(row.cells for row in table.rows), strict=True)
    widths = [max(len(item.text) or 12 for item in column) + 2 for column in columns]
    return max(len(row.title) for row in table.rows) + sum(widths)


def _heads(table: Table) -> list[str]:
    lines = []
    if spans := table.column_groups:
        cells, rules, column = [""], [], 2
        for title, width in spans:
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{\bf {_escape(title)}}}")
            if title:
                rules.append(rf"\cmidrule(lr){{{column}-{column + width - 1}}}")
            column += width
        lines += [" & ".join(cells) + r" \\", " ".join(rules)]
    titles = [rf"\textbf{{{_escape(c.title)}}}" if c.title == "Avg" else _escape(c.title) for c in table.columns]
    return [*lines, " & ".join([_escape(table.corner), *titles]) + r" \\"]


def cell(cell: Cell) -> str:
    r"""\textbf{76.9}$_{\pm0.1}$ {\scriptsize (77.0)}"""
    if cell.empty:
        return ""
    if cell.text:
        return rf"\textbf{{{_escape(cell.text)}}}" if cell.bold else _escape(cell.text)
    own = _escape(cell.number(cell.value))
    own = rf"\textbf{{{own}}}" if cell.bold else own
    own += rf"$_{{\pm{cell.number(cell.std)}}}$" if cell.std is not None else ""
    own += _escape(cell.mark)
    spread = rf"$_{{\pm{cell.number(cell.paper_std)}}}$" if cell.paper_std is not None else ""
    return own if cell.paper is None else rf"{own} {{\scriptsize ({_escape(cell.number(cell.paper))}{spread})}}"


def _caption(text: str) -> str:
    parts = re.split(r"`([^`]*)`", text)
    return "".join(rf"\texttt{{{_escape(part)}}}" if index % 2 else _escape(part) for index, part in enumerate(parts))


def _escape(text: str) -> str:
    parts = text.split("^multi")
    return "$^{multi}$".join("".join(SPECIAL.get(character, character) for character in part) for part in parts)
