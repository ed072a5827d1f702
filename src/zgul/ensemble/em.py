"""Entropy minimisation at test time: Algorithm 1 of the paper (EMEA of Wang et al. 2021, with learnt starts).

α are the scores of the weighting: per layer, token, view and adapter. α⁰ are the model's own scores, so T = 0 is
exactly the model without EM. Sentences do not influence each other: the loss of a batch is the sum of its sentences'
mean entropies, so batching changes only the speed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from zgul.encoders.batches import Batch
from zgul.options import Options, option

# A model maps a batch to label scores [B, T, C]. `Choose` turns the scores [..., K, N] of a layer into weights.
Choose = Callable[[int, Callable[[], Tensor]], Tensor]
TaggingModel = Callable[[Batch, Choose], Tensor]
OnStep = Callable[[int, Tensor], None]
PADDED = 128  # pieces to which the authors' release pads each sentence


@dataclass(frozen=True)
class EMConfig(Options):
    """Settings of entropy minimisation."""

    steps: int = option(10, "Steps T of entropy minimisation; 0 switches it off.", least=0, most=1000)
    lr: float = option(10.0, "Learning rate of entropy minimisation.", least=0)
    tied: bool = option(False, "Move the scores of all tokens of a layer together, as the original EMEA does.")
    # the authors' release starts from probabilities (a softmax of a softmax) and sums over padding, too
    start: str = option("scores", "Start: scores, or the release's probabilities.", choices=("scores", "probabilities"))
    positions: str = option("words", "Mean entropy over words, or sum over all 128 pieces.", choices=("words", "all"))


class Alpha:
    """α: the scores of every layer. EM moves them by ``moves``, which start at zero."""

    def __init__(self, config: EMConfig, rates: Tensor | None = None) -> None:
        """``rates`` [B] gives each sentence its own learning rate, instead of ``config.lr``."""
        self.config, self.rates = config, rates
        self.start: dict[int, Tensor] = {}  # α⁰, by layer; -1 is the mixture of invertible blocks
        self.moves: dict[int, Tensor] = {}
        self.t = 0

    def __call__(self, layer: int, scores: Callable[[], Tensor]) -> Tensor:
        """The weights of a layer. The first call takes α⁰ from the model."""
        if layer not in self.start:
            start = scores().detach()
            start = start.to(torch.promote_types(start.dtype, torch.float32))  # small moves must not be lost
            self.start[layer] = start.softmax(dim=-1) if self.config.start == "probabilities" else start
            self.moves[layer] = self.no_move(layer, start).requires_grad_()
        return self.weights(layer)

    def weights(self, layer: int) -> Tensor:
        """β = softmax(α) of a layer."""
        alpha = self.start[layer] + self.spread(layer, self.moves[layer])
        if self.config.start == "probabilities" and self.t == 0:
            return alpha  # already a distribution: the release applies the softmax again only after the first update
        return alpha.softmax(dim=-1)

    def mean_weights(self) -> tuple[Tensor, Tensor]:
        """The weights [B, T, K, N] before EM and now, as their mean over the layers."""
        layers = [layer for layer in self.start if layer >= 0]
        starts = [self.start[layer] for layer in layers]
        before = starts if self.config.start == "probabilities" else [start.softmax(dim=-1) for start in starts]
        after = [self.weights(layer).detach() for layer in layers]
        return torch.stack(before).mean(dim=0), torch.stack(after).mean(dim=0)

    def step(self, entropy: Tensor) -> None:
        """``α ← α - lr ∇H``, for all layers."""
        gradients = torch.autograd.grad(entropy, list(self.moves.values()))
        with torch.no_grad():
            for (layer, move), gradient in zip(self.moves.items(), gradients, strict=True):
                move -= (self.config.lr if self.rates is None else self.rate_of(layer, self.rates)) * gradient
        self.t += 1

    def no_move(self, layer: int, start: Tensor) -> Tensor:
        """Zeros for the scores [B, T, K, N] of a layer; when tied, one for all tokens of a sentence [B, 1, K, N]."""
        return torch.zeros_like(start[:, :1] if self.config.tied else start)

    def spread(self, layer: int, move: Tensor) -> Tensor:
        """A layer's moves, in a shape that can be added to its scores."""
        return move

    def rate_of(self, layer: int, rates: Tensor) -> Tensor:
        """The sentences' learning rates [B], in a shape that can be multiplied with a layer's moves."""
        return rates[:, None, None, None]


def minimise_entropy(
    model: TaggingModel, batch: Batch, alpha: Alpha, on_step: OnStep = lambda t, logits: None
) -> Tensor:
    """Label scores [B, T, C] of a batch after EM. ``on_step`` receives them after t = 0, 1, …, T steps."""
    config = alpha.config
    with torch.enable_grad():
        for t in range(config.steps):
            logits = model(batch, alpha)
            on_step(t, logits.detach())
            alpha.step(sentence_entropy(logits, batch, config.positions).sum())
    with torch.no_grad():
        logits = model(batch, alpha)
        on_step(config.steps, logits)
    return logits


def sentence_entropy(logits: Tensor, batch: Batch, positions: str = "words") -> Tensor:
    """H: entropy of the label distributions [B, T, C], averaged over the words of each sentence: [B]."""
    log_p = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=-1)
    # a label that is ruled out has log p = -inf, p = 0 and adds nothing
    entropy = -(log_p.exp() * log_p.masked_fill(log_p == -torch.inf, 0.0)).sum(dim=-1)  # [B, T]
    if positions == "all":
        longest = batch.mask.sum(dim=1, keepdim=True).clamp(min=PADDED)  # all of a longer sentence counts
        inside = torch.arange(entropy.shape[1], device=entropy.device) < longest
        return (entropy * inside).sum(dim=-1)
    words = batch.words.to(entropy.dtype)
    return (entropy * words).sum(dim=-1) / words.sum(dim=-1).clamp(min=1)
