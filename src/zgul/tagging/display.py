"""Tagged sentences for people: on a screen each word stands over its tag, in HTML as well, both in colour.

``tag_legend.toml`` has the meaning and the colour of every tag, ``document.css`` the layout of the HTML.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
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
    """Words over tags and, where there are weights, over the shares of the source languages."""
    layers = sentence.layers
    rows = [("", _words(sentence))]
    labelled = any(layer.weights for layer in layers.values())
    for task, layer in layers.items():
        rows.append((task.upper() if labelled else "", [_tag(layer, index) for index in range(len(sentence))]))
        rows += _weights(layer)
    return _columns(rows, width)


def legend(marks: Iterable[str]) -> Text:
    """Explain the marks that were shown."""
    entries = []
    for mark in sorted(marks, key=lambda mark: (not mark.isalpha(), mark)):
        meaning, colour = MEANINGS.get(mark, UNKNOWN)
        # a mark and its meaning stay on one line
        entries.append(Text().append(mark, style=colour).append(f" {meaning}".replace(" ", "\u00a0"), style="dim"))
    return Text("   ").join(entries)


def shown_marks(sentence: TaggedSentence) -> set[str]:
    """The marks that a sentence shows, for the legend."""
    marks = set()
    for layer in sentence.layers.values():
        marks |= {_kind(tag) for tag in layer.tags}
        marks |= {"?" for index in range(len(layer.tags)) if _is_unsure(layer, index)}
        marks |= {"%" for _ in layer.weights or ()}
    return marks - {""}


def _kind(tag: str) -> str:
    """The part of speech, or the kind of entity; nothing for ``O``."""
    return tag.removeprefix("B-").removeprefix("I-") if tag != "O" else ""


def _is_unsure(layer: Layer, index: int) -> bool:
    return layer.tags[index] != "O" and layer.probabilities[index] < UNSURE


def _words(sentence: TaggedSentence) -> list[Text]:
    """The words, in bold; if there are names, these alone are bold and have their colour."""
    if "ner" not in sentence.layers:
        return [Text(word, style="bold") for word in sentence.words]
    kinds = map(_kind, sentence.ner)
    styles = [f"bold {MEANINGS.get(kind, UNKNOWN)[1]}" if kind else "not bold" for kind in kinds]
    return [Text(word, style=style) for word, style in zip(sentence.words, styles, strict=True)]


def _tag(layer: Layer, index: int) -> Text:
    """The tag below a word; below the further words of a name a line."""
    tag, kind = layer.tags[index], _kind(layer.tags[index])
    label = "───" if tag.startswith("I-") else kind
    return Text(label + "?" * _is_unsure(layer, index), style=MEANINGS.get(kind, UNKNOWN)[1] if kind else "")


def _weights(layer: Layer) -> list[Row]:
    """A row for each source language: its share in percent."""
    rows = []
    for code in layer.weights[0] if layer.weights else ():
        shares = [weights[code] for weights in layer.weights or ()]
        if max(shares) >= WORTH_SHOWING:
            styles = ["bold" if share >= 0.5 else "" if share >= 0.25 else "dim" for share in shares]
            cells = [Text(f"{share:.0%}", style=style) for share, style in zip(shares, styles, strict=True)]
            rows.append((code, cells))
    return rows


def _columns(rows: list[Row], width: int) -> Text:
    """Lay the cells out in columns, as many as fit beside each other."""
    margin = max(len(label) + len(GAP) if label else 0 for label, _ in rows)
    widths = [max(cell_len(cell.plain) for cell in cells) for cells in zip(*(cells for _, cells in rows), strict=True)]
    lines: list[Text] = []
    start = 0
    while start < len(widths):
        end, used = start, margin
        while end < len(widths) and (end == start or used + widths[end] <= width):
            used += widths[end] + len(GAP)
            end += 1
        if lines:
            lines.append(Text(""))
        for label, cells in rows:
            line = Text().append(label.ljust(margin), style="dim")
            for cell, size in zip(cells[start:end], widths[start:end], strict=True):
                line.append_text(cell).append(" " * (size - cell_len(cell.plain)) + GAP)
            line.rstrip()
            lines.append(line)
        start = end
    return Text("\n").join(lines)


# --- HTML


def html(sentences: Iterable[TaggedSentence]) -> str:
    """A ``<div>`` with a paragraph for each sentence. The meaning and probability of a tag appear on hovering.

    It needs no script and no resource from elsewhere. Backgrounds are see-through, so that the text can be read on a
    light and on a dark page.
    """
    colours = ""
    for tag, (_, colour) in (LEGEND["pos"] | LEGEND["ner"]).items():
        if colour != "dim":
            red, green, blue = Color.parse(colour).get_truecolor()
            colours += f".zgul .{tag} {{ background: rgb({red} {green} {blue} / 0.3) }}\n"
    return f'<div class="zgul">\n<style>\n{STYLE}{colours}</style>\n{"".join(map(_paragraph, sentences))}</div>\n'


def _paragraph(sentence: TaggedSentence) -> str:
    words = [
        f"<span>{escape(word)}{''.join(_html_tag(layer, index) for layer in sentence.layers.values())}</span>"
        for index, word in enumerate(sentence.words)
    ]
    return f'<p lang="{escape(sentence.language)}" dir="auto">{" ".join(words)}</p>\n'


def _html_tag(layer: Layer, index: int) -> str:
    """The tag below a word; below the further words of a name an unnamed band of the same colour."""
    tag, kind = layer.tags[index], escape(_kind(layer.tags[index]))
    if not kind:
        return "<i></i>"
    meaning = f"{escape(MEANINGS.get(kind, [kind])[0])}, {layer.probabilities[index]:.0%}"
    label = ("" if tag.startswith("I-") else kind) + "?" * _is_unsure(layer, index)
    return f'<i class="{kind}" title="{meaning}">{label}</i>'
