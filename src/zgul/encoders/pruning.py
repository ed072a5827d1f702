"""Vocabulary pruning: keep the pieces that given words use, so that an encoder is small enough to carry.

A Unigram tokenizer takes the segmentation with the best sum of scores. Leaving out pieces only takes away
other segmentations, so words all of whose pieces stay are segmented as before, and the rows of their pieces are
the same: outputs are identical. Any other word falls back on smaller pieces: all single characters stay.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

from zgul.errors import ZgulError

_BATCH = 10_000


def pieces_used(tokenizer: Any, words: Iterable[str]) -> set[str]:
    """The pieces of ``words``, each segmented by itself."""
    backend = tokenizer.backend_tokenizer
    ids: set[int] = set()
    distinct = iter(set(words))
    while batch := list(islice(distinct, _BATCH)):  # encodings are large: a few at a time
        for encoding in backend.encode_batch(batch, add_special_tokens=False):
            ids.update(encoding.ids)
    return {backend.id_to_token(i) for i in ids}


def prune(model: Any, tokenizer: Any, pieces: Iterable[str]) -> tuple[Any, Any]:
    """(model, tokenizer) with only ``pieces``, the special tokens and all single characters.

    The pieces keep their order. The model given stays as it is.
    """
    contents = json.loads(tokenizer.backend_tokenizer.to_str())
    kept = _kept(contents, set(pieces))
    return _with_rows(model, kept), _with_pieces(tokenizer, contents, kept)


def _kept(contents: dict[str, Any], pieces: set[str]) -> list[int]:
    """The ids that stay, in order."""
    if contents["model"]["type"] != "Unigram":
        raise ZgulError(
            f"Only Unigram (sentencepiece) vocabularies can be pruned; this one is {contents['model']['type']}."
        )
    vocabulary = contents["model"]["vocab"]
    unknown = pieces - {piece for piece, _ in vocabulary}
    if unknown:
        examples = ", ".join(map(repr, sorted(unknown)[:3]))
        raise ZgulError(f"{len(unknown)} of the pieces are not in the vocabulary, such as {examples}.")
    added = {token["content"]: token["id"] for token in contents["added_tokens"]}
    # The price of an unknown character is set below the lowest score: that piece stays so the price stays.
    lowest = min(vocabulary, key=lambda entry: entry[1])[0]
    always = {*added, lowest, vocabulary[contents["model"]["unk_id"]][0]}
    kept = [
        index
        for index, (piece, _) in enumerate(vocabulary)
        if piece in pieces or piece in always or len(piece.removeprefix("▁")) <= 1
    ]
    return kept + [index for index in added.values() if index >= len(vocabulary)]


def _with_pieces(tokenizer: Any, contents: dict[str, Any], kept: list[int]) -> Any:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from zgul.encoders.tokenizer import with_vocabulary

    whole = contents["model"]["vocab"]
    vocabulary = [(whole[index][0], whole[index][1]) for index in kept if index < len(whole)]
    text = with_vocabulary(contents, vocabulary, unk_id=kept.index(contents["model"]["unk_id"]))
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(text),
        model_max_length=tokenizer.model_max_length,
        model_input_names=list(tokenizer.model_input_names),
        padding_side=tokenizer.padding_side,
        **{name: str(token) for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)},
    )


def _with_rows(model: Any, kept: list[int]) -> Any:
    """A copy of ``model`` with the given rows of the word embeddings, without copying the others."""
    import torch

    whole = model.get_input_embeddings()
    pad = whole.padding_idx
    rows = torch.nn.Embedding(
        len(kept),
        whole.embedding_dim,
        padding_idx=None if pad is None else kept.index(pad),
        _weight=whole.weight.detach()[torch.tensor(kept, device=whole.weight.device)],
    )
    rows.weight.requires_grad_(whole.weight.requires_grad)
    pruned = copy.deepcopy(model, {id(whole): rows})  # the memo puts the few rows where the many were
    pruned.config.vocab_size = len(kept)
    return pruned
