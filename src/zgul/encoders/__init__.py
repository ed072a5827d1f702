"""Encoders turn pieces of words into vectors. `load` reads the embedded encoder, or any BERT, RoBERTa or XLM-R."""

import os
from pathlib import Path

from zgul.encoders.embedded import SUFFIX, load_embedded, load_q4, save_q4
from zgul.encoders.encoder import Encoder, EncoderConfig
from zgul.encoders.folder import load_folder, load_from_hub, save
from zgul.encoders.tokenizer import PieceTokenizer, pieces_used, prune
from zgul.errors import ZgulError

__all__ = ["Encoder", "EncoderConfig", "PieceTokenizer", "load", "pieces_used", "prune", "save", "save_q4"]


def load(name: str | Path) -> tuple[Encoder, PieceTokenizer]:
    """Load a frozen encoder in float32 and its tokenizer: "embedded", a 4-bit file, a folder or a hub name."""
    name = str(name)
    if name == "embedded":
        return load_embedded()
    if name.endswith(SUFFIX):
        return load_q4(name)
    folder = Path(os.path.expanduser(name))  # noqa: PTH111  # leaves users that do not exist as they are
    if folder.is_dir():
        return load_folder(folder)
    if folder.exists():
        raise ZgulError(f"{name} is a file. An encoder is a folder, a hub name or a {SUFFIX} file.")
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name or ".." in name:
        raise ZgulError(f"{name}: no such folder")
    return load_from_hub(name)
