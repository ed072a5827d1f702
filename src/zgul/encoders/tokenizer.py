"""Tokenizers: a ``tokenizers.Tokenizer`` with the ids of its special pieces; Unigram (sentencepiece) vocabularies.

`tokenizer_json` takes sentencepiece's map of single characters, ``nmt_nfkc``, without letters whose accents are written
apart; `compositions` derives these again from Unicode's tables. `compile_charsmap` turns the whole map into
sentencepiece's compiled form, a double-array trie, because that is what the tokenizers library runs and saves.

A Unigram tokenizer takes the segmentation with the best sum of scores. Leaving pieces out only removes other
segmentations, so words whose pieces all stay are segmented as before, and their outputs are identical. Any other word
falls back on smaller pieces: all single characters stay.
"""

import itertools
import json
import struct
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import nn

from zgul.devices import shared_copy
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError
from zgul.files import atomic_write, read_json, read_plain_file, write_json

TOKENIZER, SPECIALS_FILE = "tokenizer.json", "tokenizer_config.json"
MAX_TABLE = 100_000_000  # bytes of a tokenizer
# Role -> the keys in tokenizer_config.json, and the names of the piece in BERT and XLM-R.
ROLES = {
    "begin": (("cls_token", "bos_token"), ("[CLS]", "<s>")),
    "end": (("sep_token", "eos_token"), ("[SEP]", "</s>")),
    "pad": (("pad_token",), ("[PAD]", "<pad>")),
    "unknown": (("unk_token",), ("[UNK]", "<unk>")),
    "mask": (("mask_token",), ("[MASK]", "<mask>")),
}
# The tokenizers library looks up only graphemes of at most this many bytes as a whole; longer keys are never found.
_LONGEST_KEY = 5
_BATCH = 10_000  # words at a time: encodings are large
_LEAF = 1 << 31  # marks a unit that holds a value
_HAS_LEAF = 1 << 8  # marks a unit with a child that holds a value


@dataclass(frozen=True)
class PieceTokenizer:
    """Cuts words into pieces. The fields are the ids of special pieces; ``mask`` is None if there is no mask piece."""

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
            given = ((specials or {}).get(key) for key in keys)
            named = [piece.get("content") if isinstance(piece, dict) else piece for piece in given]
            held = (backend.token_to_id(str(piece)) for piece in (*named, *usual) if piece)
            ids[role] = next((index for index in held if index is not None), None)
            if ids[role] is None and role != "mask":
                raise ZgulError(f"{name} has no {role} piece. zgul needs a BERT-like tokenizer.")
        return cls(backend, **ids)  # type: ignore[arg-type]

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Read ``tokenizer.json`` and, if it is there, ``tokenizer_config.json``."""
        path, specials = folder / TOKENIZER, folder / SPECIALS_FILE
        if not path.is_file():
            advice = "AutoTokenizer.from_pretrained(NAME).save_pretrained(FOLDER)"
            raise ZgulError(f"{folder} has no {TOKENIZER}. Make it once with the library transformers: {advice}.")
        text = read_plain_file(path, MAX_TABLE).decode("utf-8")
        return cls.parse(text, read_json(specials) if specials.is_file() else {}, str(path))

    @classmethod
    def parse(cls, text: str, specials: Mapping[str, Any], name: str) -> Self:
        """Read the text of a ``tokenizer.json``."""
        try:
            backend = Tokenizer.from_str(text)
        except BaseException as error:  # the tokenizers library panics, which is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            raise ZgulError(f"{name} is damaged ({error}). Fetch or save the tokenizer again.") from error
        return cls.wrap(backend, specials, name)

    def specials(self) -> dict[str, str]:
        """The special pieces under their names in ``tokenizer_config.json``."""
        ids = {key: getattr(self, role) for role, (keys, _) in ROLES.items() for key in keys}
        return {key: self.backend.id_to_token(index) for key, index in ids.items() if index is not None}

    def save(self, folder: Path) -> None:
        """Write both files in a form that transformers reads, too."""
        with atomic_write(folder / TOKENIZER) as file:
            file.write(self.backend.to_str())
        write_json(folder / SPECIALS_FILE, {"tokenizer_class": "PreTrainedTokenizerFast"} | self.specials())

    @cached_property
    def blank(self) -> str:
        """What must stand before a word: Gemma's pieces, which mmBERT has, mark a blank that a single word lacks."""
        alone, after, both = (self.backend.encode(text, add_special_tokens=False).ids for text in ("a", " a", "a a"))
        return " " if alone != after and both == alone + after else ""

    def tokenise(self, words: list[str]) -> list[list[int]]:
        """The piece ids of each word. Each word is cut by itself."""
        try:
            single = [[self.blank + word] for word in words]
            cut = self.backend.encode_batch(single, is_pretokenized=True, add_special_tokens=False)
        except Exception as error:  # the tokenizers library raises no narrower error, also for half of a character
            for word in words:
                if half := next((letter for letter in word if "\ud800" <= letter <= "\udfff"), None):
                    raise ZgulError(f"The word {word!r} is not text: {half!r} is half of a character.") from None
            raise ZgulError(f"The tokenizer is damaged: it cannot cut words ({error}).") from error
        return [encoding.ids for encoding in cut]


# --- Unigram vocabularies


def tokenizer_json(pieces: Sequence[str], scores: Sequence[float], charsmap: Mapping[str, str], *, unk_id: int) -> str:
    """The contents of ``tokenizer.json`` for a sentencepiece Unigram model."""
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0)], 0))
    mapped = normalizers.Precompiled(compile_charsmap({**compositions(charsmap), **charsmap}))
    tokenizer.normalizer = normalizers.Sequence([mapped, normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 0)]
    )
    tokenizer.add_special_tokens(["<s>", "</s>", "<pad>", "<unk>", "<mask>"])  # XLM-R's
    return with_vocabulary(json.loads(tokenizer.to_str()), list(zip(pieces, scores, strict=True)), unk_id=unk_id)


def with_vocabulary(contents: dict[str, Any], vocabulary: list[tuple[str, float]], *, unk_id: int) -> str:
    """``tokenizer.json`` with other pieces: the ids of the special tokens follow their new places."""
    ids = {piece: index for index, (piece, _) in enumerate(vocabulary)}
    for token in contents["added_tokens"]:  # those that are no pieces come after them
        ids.setdefault(token["content"], len(ids))
    contents = {**contents, "model": {**contents["model"], "vocab": vocabulary, "unk_id": unk_id}}
    contents["added_tokens"] = [{**token, "id": ids[token["content"]]} for token in contents["added_tokens"]]
    processor = contents["post_processor"]
    if processor["type"] != "TemplateProcessing":
        raise ZgulError(f"Tokenizers with the post-processor {processor['type']} are not supported here.")
    special = {
        name: {**token, "ids": [ids[piece] for piece in token["tokens"]]}
        for name, token in processor["special_tokens"].items()
    }
    contents["post_processor"] = {**processor, "special_tokens": special}
    return json.dumps(contents, ensure_ascii=False, separators=(",", ":"))


def compositions(charsmap: Mapping[str, str]) -> dict[str, str]:
    """Map a letter followed by accents to the composed letter. Each part may also have a compatibility form."""
    spellings: dict[str, list[str]] = {}
    for character, normal in charsmap.items():
        if len(normal) == 1:
            spellings.setdefault(normal, []).append(character)
    found: dict[str, str] = {}
    # Composed letters outside the basic plane decompose into keys that are too long anyway.
    for composed in map(chr, itertools.chain(range(0x80, 0xD800), range(0xE000, 0x10000))):
        parts = unicodedata.normalize("NFKD", composed)
        normal = unicodedata.normalize("NFC", parts)
        if len(parts) == 1 or normal == parts:
            continue
        for spelling in itertools.product(*([part, *spellings.get(part, [])] for part in parts)):
            key = "".join(spelling)
            if key != normal and len(key.encode()) <= _LONGEST_KEY:
                found[key] = normal
    return found


def compile_charsmap(charsmap: Mapping[str, str]) -> bytes:
    """sentencepiece's ``precompiled_charsmap``: u32 bytes of trie, the trie, NUL-terminated replacements."""
    texts = bytearray()
    places: dict[str, int] = {}
    for text in charsmap.values():
        if text not in places:
            places[text] = len(texts)
            texts += text.encode() + b"\0"
    units = double_array({key.encode(): places[text] for key, text in charsmap.items()})
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + bytes(texts)


def double_array(values: Mapping[bytes, int]) -> list[int]:
    """A trie in the layout of the darts-clone library; keys are non-empty and without NUL.

    The children of the node at ``p`` are at ``p ^ offset(p) ^ label``; label 0 is the leaf with the value. A
    unit is label | has-leaf bit | offset << 10, a leaf is value | leaf bit.
    """
    root: dict[int, Any] = {}
    for key, value in values.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[0] = value

    units: list[int] = [0] * 256
    free = dict.fromkeys(range(1, 256))  # in order of insertion: an ordered set
    bases: set[int] = set()

    def place(labels: list[int]) -> int:
        """The first unused base at which the places of all labels are free."""
        while True:
            for position in free:
                base = position ^ labels[0]
                if base not in bases and all(base ^ label in free for label in labels):
                    bases.add(base)
                    return base
            free.update(dict.fromkeys(range(len(units), len(units) + 256)))
            units.extend([0] * 256)

    queue = [(0, root)]
    for position, node in queue:
        base = place(list(node))
        units[position] |= (position ^ base) << 10 | (_HAS_LEAF if 0 in node else 0)
        for label, child in node.items():
            here = base ^ label
            del free[here]
            if label:
                units[here] = label
                queue.append((here, child))
            else:
                units[here] = child | _LEAF
    return units


# --- pruning


def pieces_used(tokenizer: PieceTokenizer, words: Iterable[str]) -> set[str]:
    """The pieces of ``words``, each segmented by itself."""
    ids: set[int] = set()
    distinct = iter(set(words))
    while batch := list(itertools.islice(distinct, _BATCH)):
        ids.update(itertools.chain.from_iterable(tokenizer.tokenise(batch)))
    return {tokenizer.backend.id_to_token(index) for index in ids}


def prune(encoder: Encoder, tokenizer: PieceTokenizer, pieces: Iterable[str]) -> tuple[Encoder, PieceTokenizer]:
    """Make a smaller encoder and tokenizer with only ``pieces``, special pieces and characters. Layers are shared."""
    contents = json.loads(tokenizer.backend.to_str())
    if (kind := contents["model"]["type"]) != "Unigram":
        raise ZgulError(f"Only Unigram (sentencepiece) vocabularies can be pruned; this one is {kind}.")
    vocabulary = contents["model"]["vocab"]
    wanted = set(pieces)
    if unknown := wanted - {piece for piece, _ in vocabulary}:
        examples = ", ".join(map(repr, sorted(unknown)[:3]))
        raise ZgulError(f"{len(unknown)} of the pieces are not in the vocabulary, such as {examples}.")
    added = {token["content"]: token["id"] for token in contents["added_tokens"]}
    # The score of an unknown character depends on the lowest score. That piece stays, so that both stay the same.
    lowest = min(vocabulary, key=lambda entry: entry[1])[0]
    always = {*added, lowest, vocabulary[contents["model"]["unk_id"]][0]}
    stays = [piece in wanted or piece in always or len(piece.removeprefix("▁")) <= 1 for piece, _ in vocabulary]
    kept = [index for index, stay in enumerate(stays) if stay]
    kept += [index for index in added.values() if index >= len(vocabulary)]
    smaller = [(vocabulary[index][0], vocabulary[index][1]) for index in kept if index < len(vocabulary)]
    text = with_vocabulary(contents, smaller, unk_id=kept.index(contents["model"]["unk_id"]))
    whole_table = encoder.words.weight
    rows = whole_table.detach()[torch.tensor(kept, device=whole_table.device)]
    table = nn.Embedding.from_pretrained(rows, freeze=not whole_table.requires_grad)
    small = shared_copy(encoder, {encoder.words: table})
    small.config = replace(encoder.config, vocabulary=len(kept), pad=kept.index(tokenizer.pad))
    return small, PieceTokenizer.wrap(Tokenizer.from_str(text), tokenizer.specials())
