"""Tagged sentences on a screen: each word with its tag below it, in colour where the screen has colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

if TYPE_CHECKING:
    from zgul.tagging.documents import Layer, TaggedSentence

UNSURE = 0.5  # below this a tag gets a question mark
WIDTH = 100  # of plain text
GAP = "  "  # between columns
WORTH_SHOWING = 0.1  # a source language whose share is smaller for every word is left out

PARTS_OF_SPEECH = {  # meaning and colour
    "ADJ": ("adjective", "yellow"),
    "ADP": ("adposition", "blue"),
    "ADV": ("adverb", "bright_yellow"),
    "AUX": ("auxiliary", "bright_red"),
    "CCONJ": ("conjunction", "blue"),
    "DET": ("determiner", "cyan"),
    "INTJ": ("interjection", "magenta"),
    "NOUN": ("noun", "green"),
    "NUM": ("number", "magenta"),
    "PART": ("particle", "blue"),
    "PRON": ("pronoun", "cyan"),
    "PROPN": ("proper noun", "bright_green"),
    "PUNCT": ("punctuation", "dim"),
    "SCONJ": ("subordinating conjunction", "blue"),
    "SYM": ("symbol", "dim"),
    "VERB": ("verb", "red"),
    "X": ("other", "dim"),
}
ENTITIES = {
    "PER": ("person", "magenta"),
    "LOC": ("place", "green"),
    "ORG": ("organisation", "yellow"),
    "DATE": ("date", "cyan"),
}
MEANINGS = PARTS_OF_SPEECH | ENTITIES
MEANINGS |= {
    "?": (f"less than {UNSURE:.0%} sure", "bold"),
    "%": ("how much of each source language's adapter is in the mix for the word", "bold"),
}

Row = list[Text]  # a cell for each word


def plain(sentences: Iterable[TaggedSentence], width: int = WIDTH) -> str:
    """Sentences as text without colour."""
    return "\n\n".join(render(sentence, width).plain for sentence in sentences)


def render(sentence: TaggedSentence, width: int) -> Text:
    """Words over tags and, where there are weights, over the shares of the source languages."""
    rows = [("", _words(sentence))]
    labelled = any(layer.weights for layer in sentence.layers.values())
    for task, layer in sentence.layers.items():
        rows.append((task.upper() if labelled else "", _upos(layer) if task == "pos" else _entities(layer)))
        rows += _weights(layer)
    margin = max(cell_len(label) for label, _ in rows)
    return _columns(rows, margin + len(GAP) if margin else 0, width)


def legend(seen: Iterable[str]) -> Text:
    """Explain the marks that were shown."""
    entries = []
    for mark in sorted(seen, key=lambda mark: (not mark.isalpha(), mark)):
        meaning, colour = MEANINGS.get(mark, ("", ""))
        # a mark and its meaning stay on one line
        entries.append(Text().append(mark, style=colour).append(f" {meaning}".replace(" ", "\u00a0"), style="dim"))
    return Text("   ").join(entries)


def shown(sentence: TaggedSentence) -> set[str]:
    """The marks that a sentence shows, for the legend."""
    marks = {tag if task == "pos" else tag[2:] for task, layer in sentence.layers.items() for tag in layer.tags}
    for layer in sentence.layers.values():
        marks |= {"?" for index in range(len(layer.tags)) if is_unsure(layer, index)}
        marks |= {"%" for _ in layer.weights or ()}
    return marks - {""}


def _words(sentence: TaggedSentence) -> Row:
    styles = ["bold"] * len(sentence)
    if "ner" in sentence.layers:
        for index, tag in enumerate(sentence.layers["ner"].tags):
            styles[index] = f"bold {ENTITIES.get(tag[2:], ('', 'red'))[1]}" if tag != "O" else "not bold"
    return [Text(word, style=style) for word, style in zip(sentence.words, styles, strict=True)]


def _upos(layer: Layer) -> Row:
    row = []
    for index, tag in enumerate(layer.tags):
        mark = "?" if is_unsure(layer, index) else ""
        row.append(Text(tag + mark, style=PARTS_OF_SPEECH.get(tag, ("", ""))[1]))
    return row


def _entities(layer: Layer) -> Row:
    """The label below the first word of a name, a line below the others; unsure ones are marked."""
    row = []
    for index, tag in enumerate(layer.tags):
        style = ENTITIES.get(tag[2:], ("", "red"))[1] if tag != "O" else ""
        mark = "?" if is_unsure(layer, index) else ""
        row.append(Text({"B": tag[2:] + mark, "I": "─" * 3 + mark, "O": ""}[tag[0]], style=style))
    return row


def _weights(layer: Layer) -> list[tuple[str, Row]]:
    """A row for each source language: its share in percent."""
    if not layer.weights:
        return []
    rows = []
    for code in layer.weights[0]:
        shares = [weights[code] for weights in layer.weights]
        if max(shares) >= WORTH_SHOWING:
            cells = [Text(f"{share:.0%}", style=_shade(share)) for share in shares]
            rows.append((code, cells))
    return rows


def _shade(share: float) -> str:
    return "bold" if share >= 0.5 else "" if share >= 0.25 else "dim"


def is_unsure(layer: Layer, index: int) -> bool:
    return layer.tags[index] != "O" and layer.probabilities[index] < UNSURE


def _columns(rows: Sequence[tuple[str, Row]], margin: int, width: int) -> Text:
    """Lay the cells out in columns, as many as fit beside each other."""
    if not rows[0][1]:
        return Text("")
    widths = [max(cell_len(row[index].plain) for _, row in rows) for index in range(len(rows[0][1]))]
    lines: list[Text] = []
    start = 0
    while start < len(widths):
        end, used = start, margin
        while end < len(widths) and (end == start or used + widths[end] <= width):
            used += widths[end] + len(GAP)
            end += 1
        if lines:
            lines.append(Text(""))
        for label, row in rows:
            line = Text().append(f"{label:{margin}}" if margin else "", style="dim")
            for index in range(start, end):
                line.append_text(row[index])
                line.append(" " * (widths[index] - cell_len(row[index].plain)) + GAP)
            line.rstrip()
            lines.append(line)
        start = end
    return Text("\n").join(lines)
