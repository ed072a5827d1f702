"""Tagged sentences as HTML: words over coloured tags. It needs no script and no resource from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from rich.color import Color

from zgul.tagging.terminal import ENTITIES, MEANINGS, PARTS_OF_SPEECH, is_unsure

if TYPE_CHECKING:
    from zgul.tagging.documents import Layer, TaggedSentence

# Backgrounds are see-through, so that the text can be read on a light and on a dark page.
STYLE = """\
.zgul p { line-height: 2.6 }
.zgul span { display: inline-block; text-align: center; line-height: 1.2; margin: 0 .2em; vertical-align: top }
.zgul i { display: block; font: .7em sans-serif; border-radius: .3em; padding: 0 .3em; min-height: 1.2em }
"""


def html(sentences: Iterable[TaggedSentence]) -> str:
    """A ``<div>`` with a paragraph for each sentence. The meaning and probability of a tag appear on hovering."""
    return f'<div class="zgul">\n<style>\n{STYLE}{_colours()}</style>\n{"".join(map(_paragraph, sentences))}</div>\n'


def _colours() -> str:
    rules = []
    for tag, (_, colour) in (PARTS_OF_SPEECH | ENTITIES).items():
        if colour != "dim":
            red, green, blue = Color.parse(colour).get_truecolor()
            rules.append(f".zgul .{tag} {{ background: rgb({red} {green} {blue} / 0.3) }}\n")
    return "".join(rules)


def _paragraph(sentence: TaggedSentence) -> str:
    words = [
        f"<span>{escape(word)}{''.join(_tag(layer, index) for layer in sentence.layers.values())}</span>"
        for index, word in enumerate(sentence.words)
    ]
    return f'<p lang="{escape(sentence.language)}" dir="auto">{" ".join(words)}</p>\n'


def _tag(layer: Layer, index: int) -> str:
    """The tag below a word; below the further words of a name an unnamed band of the same colour."""
    tag, probability = layer.tags[index], layer.probabilities[index]
    if tag == "O":
        return "<i></i>"
    inside, kind = tag.startswith("I-"), tag.removeprefix("B-").removeprefix("I-")
    meaning = MEANINGS.get(kind, (kind, ""))[0]
    shown = ("" if inside else escape(kind)) + "?" * is_unsure(layer, index)
    return f'<i class="{escape(kind)}" title="{escape(meaning)}, {probability:.0%}">{shown}</i>'
