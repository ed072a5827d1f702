"""Show tagged sentences to people: each word over its tag, in colour, on a screen or as HTML.

``tag_legend.toml`` has the meaning and the colour of every tag, ``document.css`` the layout of the HTML.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.color import Color
from rich.text import Text

if TYPE_CHECKING:
    from zgul.tagging.documents import Layer, TaggedSentence

UNSURE = 0.5  # below this a tag gets a question mark
WIDTH = 100  # of plain text
GAP = "  "  # between columns
WORTH_SHOWING = 0.1  # a source language whose share is smaller for every word is left out

LEGEND: dict[str, dict[str, list[str]]] = tomllib.loads(Path(__file__).with_name("tag_legend.toml").read_text("utf-8"))
MEANINGS = LEGEND["pos"] | LEGEND["ner"] | LEGEND["marks"]
UNKNOWN = ["", "red"]  # a label that only the user's own tagger has
STYLE = Path(__file__).with_name("document.css").read_text("utf-8")

Row = tuple[str, list[Text]]  # a label in the margin, and a cell for each word


def plain(sentences: Iterable[TaggedSentence]) -> str:
    """Sentences as text without colour."""
    return "\n\n".join(render(sentence, WIDTH).plain for sentence in sentences)


def render(sentence: TaggedSentence, width: int) -> Text:
    """Words over tags and, if there are weights, over the shares of the source languages."""
    styles = ["bold"] * len(sentence)
    if "ner" in sentence.layers:  # names alone are bold
        styles = [f"bold {_colour(kind)}" if kind else "not bold" for kind in map(_kind, sentence.ner)]
    rows = [("", list(map(Text, sentence.words, styles)))]
    labelled = any(layer.weights for layer in sentence.layers.values())
    for task, layer in sentence.layers.items():
        tags = [Text(_label(layer, index, "───"), style=_colour(_kind(tag))) for index, tag in enumerate(layer.tags)]
        rows.append((task.upper() if labelled else "", tags))
        for code in layer.weights[0] if layer.weights else ():
            shares = [weights[code] for weights in layer.weights or ()]
            if max(shares) >= WORTH_SHOWING:
                rows.append((code, [Text(f"{share:.0%}", style="bold" if share >= 0.5 else "dim") for share in shares]))
    return _columns(rows, width)


def legend(marks: Iterable[str]) -> Text:
    """Explain the marks that were shown."""
    entries = []
    for mark in sorted(marks, key=lambda mark: (not mark.isalpha(), mark)):
        meaning = " " + MEANINGS.get(mark, UNKNOWN)[0]
        # a mark and its meaning stay on one line
        entries.append(Text(mark, style=_colour(mark)).append(meaning.replace(" ", "\u00a0"), style="not bold dim"))
    return Text("   ").join(entries)


def shown_marks(sentence: TaggedSentence) -> set[str]:
    """The marks that a sentence shows, for the legend."""
    marks = set()
    for layer in sentence.layers.values():
        marks |= {_kind(tag) for tag in layer.tags}
        marks |= {"?" for index in range(len(layer.tags)) if _label(layer, index).endswith("?")}
        marks |= {"%" for _ in layer.weights or ()}
    return marks - {""}


def _kind(tag: str) -> str:
    """The part of speech, or the kind of entity; empty for ``O``."""
    return tag.removeprefix("B-").removeprefix("I-") if tag != "O" else ""


def _colour(kind: str) -> str:
    return MEANINGS.get(kind, UNKNOWN)[1] if kind else ""


def _label(layer: Layer, index: int, inside: str = "") -> str:
    """The label below a word. The further words of a name get ``inside``."""
    tag = layer.tags[index]
    unsure = tag != "O" and layer.probabilities[index] < UNSURE
    return (inside if tag.startswith("I-") else _kind(tag)) + "?" * unsure


def _columns(rows: list[Row], width: int) -> Text:
    """Lay the cells out in columns, as many as fit beside each other."""
    margin = max(len(label) + len(GAP) if label else 0 for label, _ in rows)
    widths = [max(cell_len(cell.plain) for cell in cells) for cells in zip(*(cells for _, cells in rows), strict=True)]
    blocks = []
    start = 0
    while start < len(widths):
        end, used = start, margin
        while end < len(widths) and (end == start or used + widths[end] <= width):
            used += widths[end] + len(GAP)
            end += 1
        lines = []
        for label, cells in rows:
            line = Text().append(label.ljust(margin), style="dim")
            for cell, size in zip(cells[start:end], widths[start:end], strict=True):
                line.append_text(cell).append(" " * (size - cell_len(cell.plain)) + GAP)
            line.rstrip()
            lines.append(line)
        blocks.append(Text("\n").join(lines))
        start = end
    return Text("\n\n").join(blocks)


def html(sentences: Iterable[TaggedSentence]) -> str:
    """A ``<div>`` with a paragraph for each sentence. The meaning and probability of a tag appear on hovering.

    It needs no script and no other file. Backgrounds are transparent, so that the text can be read on a light and on a
    dark page.
    """
    colours = ""
    for tag, (_, colour) in (LEGEND["pos"] | LEGEND["ner"]).items():
        if colour != "dim":
            red, green, blue = Color.parse(colour).get_truecolor()
            colours += f".zgul .{tag} {{ background: rgb({red} {green} {blue} / 0.3) }}\n"
    paragraphs = ""
    for sentence in sentences:
        below = ["".join(marks) for marks in zip(*map(_html_marks, sentence.layers.values()), strict=True)]
        words = [f"<span>{escape(word)}{marks}</span>" for word, marks in zip(sentence.words, below, strict=True)]
        paragraphs += f'<p lang="{escape(sentence.language)}" dir="auto">{" ".join(words)}</p>\n'
    return f'<div class="zgul">\n<style>\n{STYLE}{colours}</style>\n{paragraphs}</div>\n'


def _html_marks(layer: Layer) -> Iterator[str]:
    """The tag below each word. The further words of a name get a band of the same colour without a label."""
    for index, kind in enumerate(map(_kind, layer.tags)):
        meaning = f"{MEANINGS.get(kind, [kind])[0]}, {layer.probabilities[index]:.0%}"
        label = f' class="{escape(kind)}" title="{escape(meaning)}">{escape(_label(layer, index))}' if kind else ">"
        yield f"<i{label}</i>"
