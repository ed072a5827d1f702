"""The tables as LaTeX that looks like the paper's: booktabs, the best in bold, the paper's number in brackets."""

from __future__ import annotations

import re

from zgul.paper.report.document import CellStyle, Column, ReportTable

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "−": r"$-$", "–": "--", "×": r"$\times$",
    "≥": r"$\geq$", "≤": r"$\leq$", "<": r"$<$", ">": r"$>$", "*": r"$^*$", "…": r"\dots{}", "←": r"$\leftarrow$",
}  # fmt: skip
WIDE, LINE = 8, 100  # columns, and characters of a line, from which a table is set to the page's width
PREAMBLE = r"""% Tables of a zgul report. Compile with xelatex or lualatex (examples are in several scripts).
\documentclass[10pt]{article}
\usepackage[margin=15mm,landscape]{geometry}
\usepackage{booktabs,graphicx,fontspec}
% a font that has all scripts, Gothic and Ethiopic included; any other with your scripts will do
\IfFontExistsTF{FreeSerif}{\setmainfont{FreeSerif}}{}
\begin{document}
"""


def latex_document(names: list[str]) -> str:
    """A file that sets all tables, one ``\\input`` each."""
    return PREAMBLE + "".join(f"\\input{{{name}}}\n\\clearpage\n" for name in names) + "\\end{document}\n"


def latex_table(table: ReportTable) -> str:
    """One floating table with caption and label."""
    wide = len(table.columns) >= WIDE or _characters(table) > LINE
    star = "*" if wide else ""
    spec = "l" + "".join(map(_column, table.columns, (None, *table.columns)))
    body = [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", *_heads(table), r"\midrule"]
    for row in table.rows:
        body += [r"\midrule"] * row.rule
        body.append(" & ".join([_escape(row.title), *map(CELLS.show, row.cells)]) + r" \\")
    body += [r"\bottomrule", r"\end{tabular}"]
    body = [r"\resizebox{\textwidth}{!}{%", *body, "}"] if wide else body
    top, end = [rf"\begin{{table{star}}}[t]", r"\centering\small"], rf"\end{{table{star}}}"
    foot = [rf"\caption{{{_caption(table.caption)}}}", rf"\label{{tab:{table.name}}}", end, ""]
    return "\n".join([*top, *body, *foot])


def _column(column: Column, before: Column | None) -> str:
    """Two lines between groups, as the paper has them."""
    new_group = before is not None and before.group != column.group
    return "l" if not column.rule else "||l" if new_group else "|l"


def _characters(table: ReportTable) -> int:
    """About how long the longest line is."""
    columns = zip(*(row.cells for row in table.rows), strict=True)
    widths = [max(len(item.text) or 12 for item in column) + 2 for column in columns]
    return max(len(row.title) for row in table.rows) + sum(widths)


def _heads(table: ReportTable) -> list[str]:
    lines = []
    if spans := table.column_groups:
        cells, rules, column = [""], [], 2
        for title, width in spans:
            cells.append(rf"\multicolumn{{{width}}}{{c}}{{\bf {_escape(title)}}}")
            rules += [rf"\cmidrule(lr){{{column}-{column + width - 1}}}"] if title else []
            column += width
        lines += [" & ".join(cells) + r" \\", " ".join(rules)]
    titles = [rf"\textbf{{{_escape(c.title)}}}" if c.title == "Avg" else _escape(c.title) for c in table.columns]
    return [*lines, " & ".join([_escape(table.corner), *titles]) + r" \\"]


def _caption(text: str) -> str:
    parts = re.split(r"`([^`]*)`", text)
    return "".join(rf"\texttt{{{_escape(part)}}}" if index % 2 else _escape(part) for index, part in enumerate(parts))


def _escape(text: str) -> str:
    parts = text.split("^multi")
    return "$^{multi}$".join("".join(SPECIAL.get(character, character) for character in part) for part in parts)


# \textbf{76.9}$_{\pm0.1}$ {\scriptsize (77.0)}
CELLS = CellStyle(_escape, bold=r"\textbf{{{}}}", std=r"$_{{\pm{}}}$", paper=r" {{\scriptsize ({})}}")
