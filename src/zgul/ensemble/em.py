"""Entropy minimisation at test time: Algorithm 1 of the paper (EMEA, Wang et al. 2021, with learnt starts).

The leaves are the scores of the weighting, per layer, token, view and adapter; they start from the model's own, so
that no step (T = 0) is exactly the model without EM. One step: forward, entropy of the label distribution averaged
over the words of the sentence, its gradient to the scores, SGD. Sentences do not see each other: the loss of a
batch is the sum of its sentences' means, so batching changes nothing but speed.

What is saved against the plain loop: the first forward yields the start *and* the first gradient (T + 1 forwards,
not T + 2); scores are given, so fusion's projections are not computed again; the first layer up to its mix is the
same in every step and is computed once; no weight asks for a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from zgul.corpora.encode import Batch
from zgul.errors import ZgulError

if TYPE_CHECKING:
    from zgul.methods.model import Model

STARTS = ("scores", "probabilities")
POSITIONS = ("words", "all")


@dataclass(frozen=True)
class EMConfig:
    """Settings of entropy minimisation."""

    steps: int = 10  # T
    lr: float = 10.0
    tied: bool = False  # one move for all tokens of a layer, as the original EMEA
    start: str = "scores"  # "probabilities": the authors' release, which applies the softmax twice
    positions: str = "words"  # "all": the release's sum over every position, padding and specials included
    skip_below: float = 0.0  # sentences of less entropy (nats a word) are certain already and stay as they are

    def __post_init__(self) -> None:
        if self.steps < 0 or self.lr < 0 or self.skip_below < 0:
            raise ZgulError(
                "EM needs steps, lr and skip_below of at least 0, "
                f"not steps={self.steps}, lr={self.lr}, skip_below={self.skip_below}"
            )
        if self.start not in STARTS or self.positions not in POSITIONS:
            raise ZgulError(f"EM starts from {' or '.join(STARTS)} and averages over {' or '.join(POSITIONS)}")


@dataclass
class EMResult:
    """Label scores after EM, and the weights [L, B, T, K, N] before and after."""

    logits: Tensor  # [B, T, C]
    before: Tensor
    after: Tensor
    entropy: list[Tensor] = field(default_factory=list)  # [B] after each forward, mean over the words


def minimise_entropy(
    model: Model, batch: Batch, config: EMConfig, *, on_step: Callable[[int, Tensor], None] | None = None
) -> EMResult:
    """Tag a batch, moving its adapter weights to where the model is most certain.

    ``on_step`` hears the label scores [B, T, C] after t = 0, 1, … steps: what a run with T = t would give.
    It hears all sentences, also those that ``skip_below`` would leave as they are.
    """
    if config.steps and config.skip_below and on_step is None:
        return _uncertain_only(model, batch, config)
    leaves = _Leaves(config)
    with _frozen(model):
        with torch.no_grad():
            prefix = model.prefix(batch) if model.invertible != "mixed" else None
        entropies = []
        for step in range(config.steps + 1):
            last = step == config.steps
            with torch.set_grad_enabled(not last):
                logits = model(batch, choose=leaves.choose, prefix=prefix)
                per_position = position_entropy(logits)  # [B, T]
                entropies.append(_sentence_entropy(per_position, batch, "words").detach())
            if on_step is not None:
                on_step(step, logits.detach())
            if last:
                break
            # the sum over sentences: each sentence's scores get the gradient of its own entropy alone
            leaves.step(_sentence_entropy(per_position, batch, config.positions).sum())
    return EMResult(logits.detach(), leaves.before(), leaves.after(), entropies)


def _uncertain_only(model: Model, batch: Batch, config: EMConfig) -> EMResult:
    """EM on the sentences that leave something to gain; not exact against EM on all, and much cheaper."""
    result = minimise_entropy(model, batch, replace(config, steps=0))
    chosen = result.entropy[0] >= config.skip_below  # [B]
    if chosen.any():
        part = Batch(**{name: value[chosen] for name, value in vars(batch).items()})
        moved = minimise_entropy(model, part, replace(config, skip_below=0.0))
        result.logits[chosen] = moved.logits
        result.after[:, chosen] = moved.after
    return result


def position_entropy(logits: Tensor) -> Tensor:
    """Entropy of the label distribution at each position: [B, T, C] to [B, T]."""
    log_p = logits.float().log_softmax(dim=-1) if logits.dtype != torch.float64 else logits.log_softmax(dim=-1)
    # a label that is ruled out has log p = -inf, p = 0 and adds nothing
    return -(log_p.exp() * log_p.masked_fill(log_p == -torch.inf, 0.0)).sum(dim=-1)


def _sentence_entropy(per_position: Tensor, batch: Batch, positions: str) -> Tensor:
    """[B, T] to [B]: mean over the words of each sentence, or the release's plain sum over all positions."""
    if positions == "all":
        return per_position.sum(dim=-1)
    words = batch.words.to(per_position.dtype)
    return (per_position * words).sum(dim=-1) / words.sum(dim=-1).clamp(min=1)


class _Leaves:
    """The scores of every layer: made in the first forward, moved after each."""

    def __init__(self, config: EMConfig) -> None:
        self.config = config
        self.base: dict[int, Tensor] = {}  # the model's own scores [B, T, K, N]
        self.moves: dict[int, Tensor] = {}  # what EM adds to them; [B, 1, K, N] when tied
        self.moved = False

    def choose(self, layer: int, compute: Callable[[], Tensor]) -> Tensor:
        if layer not in self.base:
            with torch.no_grad():
                scores = compute()
                if self.config.start == "probabilities":
                    scores = scores.softmax(dim=-1)
            self.base[layer] = scores
            move = torch.zeros_like(scores[:, :1] if self.config.tied else scores)
            self.moves[layer] = move.requires_grad_()
        return self._weights(layer)

    def _weights(self, layer: int) -> Tensor:
        scores = self.base[layer] + self.moves[layer]
        if self.config.start == "probabilities" and not self.moved:
            return scores  # already a distribution; the release softmaxes it only after the first update
        return scores.softmax(dim=-1)

    def step(self, loss: Tensor) -> None:
        gradients = torch.autograd.grad(loss, list(self.moves.values()))
        with torch.no_grad():
            for move, gradient in zip(self.moves.values(), gradients, strict=True):
                move -= self.config.lr * gradient
        self.moved = True

    @torch.no_grad()
    def before(self) -> Tensor:
        layers = [self.base[layer] for layer in sorted(self.base) if layer >= 0]
        weights = torch.stack(layers)
        return weights if self.config.start == "probabilities" else weights.softmax(dim=-1)

    @torch.no_grad()
    def after(self) -> Tensor:
        return torch.stack([self._weights(layer) for layer in sorted(self.base) if layer >= 0])


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """No weight asks for a gradient, and nothing is dropped, while EM runs."""
    training = model.training
    asking = [p for p in model.parameters() if p.requires_grad]
    for parameter in asking:
        parameter.requires_grad_(False)
    model.eval()
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)
        model.train(training)
