"""zgul: tag text in languages that no pretrained model has seen.

Implements "ZGUL: Zero-shot Generalization to Unseen Languages using Multi-source Ensembling of
Language Adapters" (Rathore et al., EMNLP 2023) and the methods it compares with.

    tagger = zgul.load(lang="fo", task="pos")
    print(tagger.tag("Hetta er ein lítil roynd."))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zgul.errors import ZgulError, ZgulWarning

if TYPE_CHECKING:
    from zgul.tagging import Document as Document
    from zgul.tagging import Entity as Entity
    from zgul.tagging import TaggedSentence as TaggedSentence
    from zgul.tagging import TextTagger as TextTagger
    from zgul.tagging import load as load

__version__ = "0.1.0"
__all__ = ["Document", "Entity", "TaggedSentence", "TextTagger", "ZgulError", "ZgulWarning", "load"]


def __getattr__(name: str) -> Any:
    """What tags comes on first use, so that ``import zgul`` does not import torch."""
    if name in __all__:
        from zgul import tagging

        return getattr(tagging, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
