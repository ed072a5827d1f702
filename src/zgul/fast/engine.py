"""The engine: a frozen copy of a model on one device that infers fast.

It computes what `zgul.methods.model.infer` computes, up to rounding. Weights are folded (`folding`), padding is
left out (`packing`) and, on a GPU, small batches are replayed as graphs (`graphs`). In int8, tagging without EM runs in
8 bits (`int8`), and sentences in which that leaves many words open are read again in float32. EM and weights stay in
float32. Several threads may use one engine.
"""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from zgul.devices import find_device, find_precision, mixed_precision, moved_copy
from zgul.encoders.batches import Batch
from zgul.ensemble.em import Alpha, EMConfig, OnStep, minimise_entropy
from zgul.errors import ZgulError
from zgul.fast.folding import fold
from zgul.fast.graphs import GraphedStep
from zgul.fast.int8 import Int8Layers, fast_in_int8, fits
from zgul.fast.packing import PackedAlpha, PackedReader, Packing
from zgul.methods.model import Inferred, Model, infer

CPU_TOKENS = 1024  # in a batch: fills a CPU's caches, also with EM
GRAPHED = 8192 * 384  # numbers in the hidden states of the largest batch that is replayed as a graph
GRAPHS = 64  # graphs that are kept
OPEN = 0.5  # logits between the two best labels: int8 rarely moves them further. Chosen on dev files of sources
# One lock for all engines. A graph always writes its result to the same place, and only one can be captured at a time.
GPU_LOCK = threading.Lock()


def engine(
    model: Model, device: torch.device | str = "cpu", precision: str = "float32", may_be_open: float = 1.0
) -> "Engine":
    """The fast form of a model. The model itself stays as it is.

    "auto" is int8 on a CPU that is fast in 8 bits, if the model can be written so, else float32. A sentence of which
    int8 leaves more than the share ``may_be_open`` of the words open (`open_words`) is read again in float32.
    """
    return Engine(model, find_device(device), find_precision(precision), may_be_open)


class Engine:
    """A folded, frozen copy of a model. Weights that need no change are shared with the model."""

    def __init__(self, model: Model, device: torch.device, precision: str, may_be_open: float = 1.0) -> None:
        self.device, self.may_be_open = device, may_be_open
        half = precision == "bfloat16"
        folded = fold(model, precision if half else "float32")
        self.model = moved_copy(folded, device, half=half, frozen=True).eval()
        if precision == "auto":
            precision = "int8" if device.type == "cpu" and fast_in_int8() and fits(self.model) else "float32"
        self.precision = precision
        if precision == "int8" and device.type != "cpu":
            raise ZgulError("int8 is for CPUs. On a GPU use --precision bfloat16.")
        self._int8 = Int8Layers(self.model) if precision == "int8" else None
        # How batches are cut (`EncodedCorpus.batches`). A CPU gains nothing from many tokens, but from little padding.
        self.shapes: dict[str, Any] = {"multiple": 8} if device.type == "cuda" else {"alike": 0.9}
        self._graphs = GraphedStep(self._fixed_steps, most=GRAPHS)
        self._lock: AbstractContextManager[object] = GPU_LOCK if device.type == "cuda" else nullcontext()

    @property
    def max_tokens(self) -> int:
        """Tokens in a batch that keep the device busy and fit its memory, also with EM."""
        if self.device.type != "cuda":
            return CPU_TOKENS
        # EM keeps a quarter of a megabyte for a token of the embedded encoder, and half of one at BERT's width
        megabytes = torch.cuda.get_device_properties(self.device).total_memory // 2**20
        return int(min(65536, max(4096, megabytes // 1024 * 1024)))

    def __call__(self, batch: Batch, em: EMConfig | None = None, weights: bool = False) -> Inferred:
        """Label scores of a batch and, on request, adapter weights: see `infer`."""
        em = em if em is not None and em.steps and self.model.bank is not None else None
        with self._lock, mixed_precision(self.device, self.precision):
            if em is not None and em.positions == "all":
                return infer(self.model, batch, em, weights)
            if self._int8 is not None and em is None and not weights:
                return Inferred(self._in_int8(self._int8, batch))
            if not weights and (logits := self._replayed(batch, em)) is not None:
                return Inferred(logits)
            return self._packed(batch, em, weights and self.model.bank is not None)

    def _in_int8(self, layers: Int8Layers, batch: Batch) -> Tensor:
        logits = layers(batch)
        if self.may_be_open < 1:
            again = open_words(logits, batch) > self.may_be_open
            if again.any():
                logits[again] = self._packed(batch.select(again), None, False).logits
        return logits

    def _packed(self, batch: Batch, em: EMConfig | None, weights: bool) -> Inferred:
        packing = Packing(batch.mask)
        if em is None and not weights:
            with torch.no_grad():
                return Inferred(PackedReader(self.model, packing, batch)(batch))
        alpha = PackedAlpha(em or EMConfig(steps=0), packing)
        logits = minimise_entropy(PackedReader(self.model, packing, batch), batch, alpha)
        before, after = (packing.unpack(each) for each in alpha.mean_weights()) if weights else (None, None)
        return Inferred(logits, before, after)

    def grid(self, batch: Batch, config: EMConfig, rates: Sequence[float], on_step: OnStep) -> None:
        """Run EM with several learning rates; pass on the label scores [rates, B, T, C] after t = 0, 1, …, T steps."""
        # sentences do not see each other, so all rates go into one batch, each with a copy of the sentences
        copies = batch.select(torch.arange(len(batch), device=self.device).repeat(len(rates)))
        each = torch.tensor(rates, device=self.device).repeat_interleave(len(batch))
        packing = Packing(copies.mask)
        alpha = PackedAlpha(config, packing, each)

        def keep(t: int, logits: Tensor) -> None:
            on_step(t, logits.unflatten(0, (len(rates), len(batch))))

        with self._lock, mixed_precision(self.device, self.precision):
            minimise_entropy(PackedReader(self.model, packing, copies), copies, alpha, keep)

    def _replayed(self, batch: Batch, em: EMConfig | None) -> Tensor | None:
        """Replay a batch as a graph, if it is so small that launching its kernels would take most of the time."""
        encoder, (rows, length) = self.model.encoder, batch.input_ids.shape
        # few shapes, so that few graphs serve many batches
        more, longer = _one_of_few(rows), max(length, min(8 * _one_of_few(-(-length // 8)), encoder.max_pieces))
        if self.device.type != "cuda" or more * longer * encoder.width > GRAPHED:
            return None
        padded = batch.padded(more, longer, encoder.config.pad)
        return self._graphs(em, **vars(padded))[:rows, :length].clone()

    def _fixed_steps(self, em: EMConfig | None, **tensors: Tensor) -> Tensor:
        """Label scores without EM, or after all its steps: a sequence of kernels that depends on shapes alone."""
        batch = Batch(**tensors)
        if em is not None:
            return minimise_entropy(self.model, batch, Alpha(em))
        with torch.no_grad():
            logits: Tensor = self.model(batch)
            return logits


def _one_of_few(count: int) -> int:
    """The smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24, … that is not below ``count``."""
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power


def open_words(logits: Tensor, batch: Batch) -> Tensor:
    """The share of each sentence's words whose two best labels are so near that rounding may swap them [B]."""
    best = logits.topk(2, dim=-1).values  # [B, T, 2]
    near = (best[..., 0] - best[..., 1] < OPEN) & batch.words
    return near.sum(dim=1) / batch.words.sum(dim=1).clamp(min=1)
