"""Tokenizers: a ``tokenizers.Tokenizer`` with the ids of its special pieces."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer, pre_tokenizers

from zgul.errors import ZgulError
from zgul.files import atomic_write, write_json

FILE, SPECIALS_FILE = "tokenizer.json", "tokenizer_config.json"
# Role -> the key in tokenizer_config.json, and how BERT and XLM-R call the piece.
ROLES = {
    "begin": (("cls_token", "bos_token"), ("[CLS]", "<s>")),
    "end": (("sep_token", "eos_token"), ("[SEP]", "</s>")),
    "pad": (("pad_token",), ("[PAD]", "<pad>")),
    "unknown": (("unk_token",), ("[UNK]", "<unk>")),
    "mask": (("mask_token",), ("[MASK]", "<mask>")),
}


@dataclass(frozen=True)
class PieceTokenizer:
    """Cuts words into pieces. The special pieces are ids; ``mask`` is None where there is none."""

    backend: Any
    begin: int
    end: int
    pad: int
    unknown: int
    mask: int | None

    @classmethod
    def wrap(cls, backend: Any, specials: Mapping[str, Any] | None = None, name: str = "the tokenizer") -> Self:
        """Find the special pieces of a tokenizer: as ``specials`` (a tokenizer_config.json) says, or by their names.

        The tokenizer is set to cut words: without padding or truncation, which files of sentence encoders ask for, and
        with the blank that RoBERTa's byte-level pieces begin with.
        """
        backend.no_padding()
        backend.no_truncation()
        if isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
            backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        ids: dict[str, int | None] = {}
        for role, (keys, usual) in ROLES.items():
            named = [_content((specials or {}).get(key)) for key in keys]
            held = (backend.token_to_id(piece) for piece in (*named, *usual) if piece)
            ids[role] = next((index for index in held if index is not None), None)
            if ids[role] is None and role != "mask":
                raise ZgulError(f"{name} has no {role} piece. zgul needs a BERT-like tokenizer.")
        return cls(backend, **ids)  # type: ignore[arg-type]

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Read ``tokenizer.json`` and, if it is there, ``tokenizer_config.json``."""
        path, specials = folder / FILE, folder / SPECIALS_FILE
        if not path.is_file():
            advice = "AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)"
            raise ZgulError(f"{folder} has no {FILE}. Make it once with the library transformers: {advice}.")
        try:
            declared = json.loads(specials.read_text(encoding="utf-8")) if specials.is_file() else {}
            backend = Tokenizer.from_file(str(path))
        except Exception as error:  # the tokenizers library raises nothing narrower
            raise ZgulError(f"{path} is damaged ({error}). Fetch or save the tokenizer again.") from error
        return cls.wrap(backend, declared if isinstance(declared, dict) else {}, str(path))

    def specials(self) -> dict[str, str]:
        """The special pieces under their names in ``tokenizer_config.json``."""
        ids = {key: getattr(self, role) for role, (keys, _) in ROLES.items() for key in keys}
        return {key: self.backend.id_to_token(index) for key, index in ids.items() if index is not None}

    def save(self, folder: Path) -> None:
        """Write both files in a form that transformers reads, too."""
        with atomic_write(folder / FILE) as file:
            file.write(self.backend.to_str())
        write_json(folder / SPECIALS_FILE, {"tokenizer_class": "PreTrainedTokenizerFast"} | self.specials())

    def tokenise(self, words: list[str]) -> list[list[int]]:
        """The piece ids of each word, cut by itself."""
        try:
            cut = self.backend.encode_batch([[word] for word in words], is_pretokenized=True, add_special_tokens=False)
        except TypeError:  # all that the tokenizers library says of half a character
            for word in words:
                if half := next((letter for letter in word if "\ud800" <= letter <= "\udfff"), None):
                    raise ZgulError(f"The word {word!r} is not text: {half!r} is half of a character.") from None
            raise
        return [encoding.ids for encoding in cut]


def _content(piece: Any) -> str:
    return str(piece.get("content", "")) if isinstance(piece, dict) else str(piece or "")
