"""zgul: tag text in languages without labelled data.

Implements "ZGUL: Zero-shot Generalization to Unseen Languages using Multi-source Ensembling of
Language Adapters" (Rathore et al., EMNLP 2023) and the methods it compares with.

    tagger = zgul.load(lang="fo", task="pos")
    print(tagger.tag("Hetta er ein lítil roynd."))
"""

import importlib
from typing import TYPE_CHECKING, Any

from zgul.errors import ZgulError, ZgulWarning

if TYPE_CHECKING:
    from zgul.adaptation.adapting import adapt
    from zgul.tagging.documents import Document, Entity, TaggedSentence
    from zgul.tagging.loading import load
    from zgul.tagging.text_tagger import TextTagger

__version__ = "0.1.0"
__all__ = ["Document", "Entity", "TaggedSentence", "TextTagger", "ZgulError", "ZgulWarning", "adapt", "load"]

# Names that are imported on first use, so that ``import zgul`` does not import torch.
_LAZY = dict.fromkeys(("Document", "Entity", "TaggedSentence"), "zgul.tagging.documents")
_LAZY |= {"TextTagger": "zgul.tagging.text_tagger", "load": "zgul.tagging.loading"}
_LAZY["adapt"] = "zgul.adaptation.adapting"


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
