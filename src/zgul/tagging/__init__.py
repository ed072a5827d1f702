"""A trained tagger in use: load one, tag text, write the result.

tagger = zgul.load(lang="fo", task="pos")
print(tagger.tag("Hetta er ein lítil roynd."))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zgul.tagging.results import Document as Document
    from zgul.tagging.results import Entity as Entity
    from zgul.tagging.results import TaggedSentence as TaggedSentence
    from zgul.tagging.tagger import TextTagger as TextTagger
    from zgul.tagging.tagger import load as load

__all__ = ["Document", "Entity", "TaggedSentence", "TextTagger", "load"]

# Imported on first use: what only asks which tagger serves a language needs no torch.
_LAZY = {
    "Document": "zgul.tagging.results",
    "Entity": "zgul.tagging.results",
    "TaggedSentence": "zgul.tagging.results",
    "TextTagger": "zgul.tagging.tagger",
    "load": "zgul.tagging.tagger",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
