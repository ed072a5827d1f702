"""Vocabulary pruning: keep the pieces that given words use, so that an encoder is small enough to carry.

A Unigram tokenizer takes the segmentation with the best sum of scores. Leaving pieces out only removes other
segmentations, so words whose pieces all stay are segmented as before, and their outputs are identical. Any other word
falls back on smaller pieces: all single characters stay.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import nn

from zgul.devices import shared_copy
from zgul.encoders.encoder import Embedding, Encoder
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.encoders.unigram import with_vocabulary
from zgul.errors import ZgulError

_BATCH = 10_000  # words at a time: encodings are large


def pieces_used(tokenizer: PieceTokenizer, words: Iterable[str]) -> set[str]:
    """The pieces of ``words``, each segmented by itself."""
    ids: set[int] = set()
    distinct = iter(set(words))
    while batch := list(islice(distinct, _BATCH)):
        for pieces in tokenizer.tokenise(batch):
            ids.update(pieces)
    return {tokenizer.backend.id_to_token(index) for index in ids}


def prune(encoder: Encoder, tokenizer: PieceTokenizer, pieces: Iterable[str]) -> tuple[Encoder, PieceTokenizer]:
    """An encoder and tokenizer with only ``pieces``, the special pieces and all single characters.

    The pieces keep their order. The encoder given stays as it is; the new one shares its layers.
    """
    contents = json.loads(tokenizer.backend.to_str())
    kept = _kept(contents, set(pieces))
    whole = contents["model"]["vocab"]
    vocabulary = [(whole[index][0], whole[index][1]) for index in kept if index < len(whole)]
    text = with_vocabulary(contents, vocabulary, unk_id=kept.index(contents["model"]["unk_id"]))
    small = shared_copy(encoder, {encoder.words: _rows(encoder, kept)})
    small.config = replace(encoder.config, vocabulary=len(kept), pad=kept.index(tokenizer.pad))
    return small, PieceTokenizer.wrap(Tokenizer.from_str(text), tokenizer.specials())


def _rows(encoder: Encoder, kept: list[int]) -> nn.Embedding:
    """The given rows of the word embeddings."""
    table = Embedding(len(kept), encoder.width)
    rows = encoder.words.weight.detach()[torch.tensor(kept, device=encoder.words.weight.device)]
    table.weight = nn.Parameter(rows, requires_grad=encoder.words.weight.requires_grad)
    return table


def _kept(contents: dict[str, Any], pieces: set[str]) -> list[int]:
    """The ids that stay, in order."""
    if contents["model"]["type"] != "Unigram":
        kind = contents["model"]["type"]
        raise ZgulError(f"Only Unigram (sentencepiece) vocabularies can be pruned; this one is {kind}.")
    vocabulary = contents["model"]["vocab"]
    if unknown := pieces - {piece for piece, _ in vocabulary}:
        examples = ", ".join(map(repr, sorted(unknown)[:3]))
        raise ZgulError(f"{len(unknown)} of the pieces are not in the vocabulary, such as {examples}.")
    added = {token["content"]: token["id"] for token in contents["added_tokens"]}
    # The price of an unknown character lies below the lowest score. That piece stays, so that the price stays.
    lowest = min(vocabulary, key=lambda entry: entry[1])[0]
    always = {*added, lowest, vocabulary[contents["model"]["unk_id"]][0]}
    kept = [
        index
        for index, (piece, _) in enumerate(vocabulary)
        if piece in pieces or piece in always or len(piece.removeprefix("▁")) <= 1
    ]
    return kept + [index for index in added.values() if index >= len(vocabulary)]
