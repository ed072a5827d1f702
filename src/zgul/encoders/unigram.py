"""Build a ``tokenizer.json`` from Unigram pieces, their scores and a map of single characters.

The map is sentencepiece's ``nmt_nfkc``, reduced to single characters. The reduction lost letters whose accents are
written apart; `compositions` derives them again from Unicode's tables. `compile_charsmap` turns the whole map into
sentencepiece's compiled form, a double-array trie, because that is what the tokenizers library runs and saves.
"""

import itertools
import json
import struct
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from zgul.errors import ZgulError

SPECIALS = ("<s>", "</s>", "<pad>", "<unk>", "<mask>")  # XLM-R's


def _template(*parts: str) -> list[dict[str, Any]]:
    return [{"Sequence" if part in "AB" else "SpecialToken": {"id": part, "type_id": 0}} for part in parts]


_POST_PROCESSOR = {
    "type": "TemplateProcessing",
    "single": _template("<s>", "A", "</s>"),
    "pair": _template("<s>", "A", "</s>", "</s>", "B", "</s>"),
    "special_tokens": {token: {"id": token, "ids": [0], "tokens": [token]} for token in ("<s>", "</s>")},
}

# The tokenizers library looks up a whole grapheme only when it is shorter than this many bytes, else its
# characters one by one: longer keys would never be found.
_LONGEST_KEY = 5

_LEAF = 1 << 31  # marks a unit that holds a value
_HAS_LEAF = 1 << 8  # marks a unit one of whose children does


def tokenizer_json(pieces: Sequence[str], scores: Sequence[float], charsmap: Mapping[str, str], *, unk_id: int) -> str:
    """The contents of ``tokenizer.json`` for a sentencepiece Unigram model.

    Written as text: reading it is the quickest way to make the tokenizer, and it is to be saved anyway.
    """
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0)], 0))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(compile_charsmap({**compositions(charsmap), **charsmap})),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    contents = json.loads(tokenizer.to_str())
    contents["post_processor"] = _POST_PROCESSOR
    contents["added_tokens"] = [_added_token(token) for token in SPECIALS]
    return with_vocabulary(contents, list(zip(pieces, scores, strict=True)), unk_id=unk_id)


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


def _added_token(token: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": 0, "content": token, **flags, "special": True}


def compositions(charsmap: Mapping[str, str]) -> dict[str, str]:
    """Base and accents written apart -> the composed letter; each part also in its compatibility forms."""
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

    The children of the node at ``p`` lie at ``p ^ offset(p) ^ label``; label 0 is the leaf with the value. A
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
        """The first base nobody has used at which the places of all labels are free."""
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
