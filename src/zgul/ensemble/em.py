"""Entropy minimisation at test time: Algorithm 1 of the paper (EMEA, Wang et al. 2021, with learnt starts).

The leaves are the scores of the weighting, per layer, token, view and adapter; they start from the model's own, so
that no step (T = 0) is exactly the model without EM. One step: forward, entropy of the label distribution averaged
over the words of the sentence, its gradient to the scores, SGD. Sentences do not see each other: the loss of a
batch is the sum of its sentences' means, so batching changes nothing but speed.

What is saved against the plain loop: the first forward yields the start *and* the first gradient (T + 1 forwards,
not T + 2); scores are given, so fusion's projections are not computed again; the first layer up to its mix is the
same in every step and is computed once; no weight asks for a gradient; padding is left out, and so is, in the last
layer, what carries no tag (``Packing``).

Not exact, and off unless asked for: only the scores of the upper layers move, and what is below them is computed once
(``layers``); sentences that are certain already stay as they are (``skip_below``), and one whose tags no longer change
stops (``patience``). Finished sentences leave the batch, so that the work falls. ``recompute`` is exact: less memory
for more time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from zgul.corpora.encode import Batch
from zgul.encoders.packing import Packing
from zgul.errors import ZgulError

if TYPE_CHECKING:
    from zgul.methods.model import Model

STARTS = ("scores", "probabilities")
POSITIONS = ("words", "all")
PADDED = 128  # pieces to which the authors' release pads each sentence


@dataclass(frozen=True)
class EMConfig:
    """Settings of entropy minimisation."""

    steps: int = 10  # T
    lr: float = 10.0
    tied: bool = False  # one move for all tokens of a layer, as the original EMEA
    start: str = "scores"  # "probabilities": the authors' release, which applies the softmax twice
    positions: str = "words"  # "all": the release's sum over 128 positions, padding and specials included
    layers: int = 0  # above 0: only the scores of this many upper layers move
    skip_below: float = 0.0  # sentences of less entropy (nats a word) are certain already and stay as they are
    patience: int = 0  # above 0: a sentence stops when its tags have not changed for this many steps
    recompute: bool = False  # keep less for the backward passes and compute the encoder's layers again in them

    def __post_init__(self) -> None:
        counted = {name: getattr(self, name) for name in ("steps", "lr", "layers", "skip_below", "patience")}
        if not all(0 <= value < math.inf for value in counted.values()):
            told = ", ".join(f"{name}={value}" for name, value in counted.items())
            raise ZgulError(f"EM needs finite steps, lr, layers, skip_below and patience from 0 on, not {told}")
        if self.start not in STARTS or self.positions not in POSITIONS:
            raise ZgulError(f"EM starts from {' or '.join(STARTS)} and averages over {' or '.join(POSITIONS)}")

    @property
    def adaptive(self) -> bool:
        """Whether a sentence may take fewer steps than T: not exact."""
        return self.skip_below > 0 or self.patience > 0

    @property
    def exact(self) -> bool:
        """Whether this is the paper's EM: every sentence, every layer, every step."""
        return not self.adaptive and self.layers == 0

    def first_layer(self, depth: int) -> int:
        """The lowest layer whose scores move, in an encoder of so many."""
        return max(0, depth - self.layers) if self.layers else 0


@dataclass(frozen=True)
class Adaptive:
    """A rule that makes EM cheaper, never doing more than a tagger's own settings."""

    layers: int
    steps: int  # at most; where they are fewer than the tagger's own, each goes further
    reach: float  # how far they then go together, in steps of the tagger's own
    skip_below: float
    patience: int

    def of(self, config: EMConfig) -> EMConfig:
        """These settings by the rule; settings that are not exact themselves stay."""
        if not config.exact:
            return config
        return replace(
            config,
            steps=min(config.steps, self.steps),
            lr=config.lr * self.longer(config.steps),
            layers=self.layers,
            skip_below=self.skip_below,
            patience=self.patience,
        )

    def longer(self, steps: int) -> float:
        """How many times its own rate a tagger takes that was tuned to so many steps."""
        return self.reach * steps / self.steps if steps > self.steps else 1.0


@dataclass
class EMResult:
    """Label scores after EM, and the weights [L, B, T, K, N] before and after: where they count, and 0 elsewhere."""

    logits: Tensor  # [B, T, C]
    before: Tensor | None  # where the weights were asked for, as ``after``
    after: Tensor | None
    steps: Tensor  # [B] how often each sentence was moved
    entropy: list[Tensor] = field(default_factory=list)  # [B] after each forward, mean over the words
    left: Tensor | None = None  # [B'] the few that are still to be done, as they are before the first step

    def cut(self, length: int) -> EMResult:
        """The first positions alone."""
        if self.logits.shape[1] == length:
            return self
        before, after = (
            weights if weights is None else weights[:, :, :length] for weights in (self.before, self.after)
        )
        return replace(self, logits=self.logits[:, :length], before=before, after=after)


def minimise_entropy(
    model: Model,
    batch: Batch,
    config: EMConfig,
    *,
    weights: bool = True,
    leave_few: bool = False,
    on_step: Callable[[int, Tensor], None] | None = None,
) -> EMResult:
    """Tag a batch, moving its adapter weights to where the model is most certain.

    With ``leave_few``, where less than half of the sentences are not certain already, these are left to the caller, who
    does those of several batches together (``EMResult.left``). ``on_step`` hears the label scores [B, T, C] of all
    sentences after t = 0, 1, … steps: what a run with T = t would give. No sentence is skipped or stopped then.
    """
    if on_step is not None:
        config = replace(config, skip_below=0.0, patience=0)
    length = batch.input_ids.shape[1]
    if config.positions == "all":
        # then no sentence hears how long the others are
        least = max(length, min(PADDED, model.encoder.max_pieces))
        batch = batch.padded(len(batch.rows), least, model.encoder.pad)
    with _frozen(model):
        run = _Run(model, batch, config, weights, _packing(batch, config))
        for step in range(config.steps + 1):
            last = step == config.steps
            with torch.set_grad_enabled(not last):
                run.forward(step)
            if on_step is not None:
                on_step(step, run.logits.detach()[:, :length])
            if last:
                run.finish(step)
                break
            if config.adaptive:
                left = run.part(step, run.certain() if step == 0 else run.settled())
                if left == 0:
                    break
                if 2 * left < len(run.rows):  # a forward and a backward of the few cost less than a backward of all
                    if leave_few and step == 0:
                        run.leave()
                        break
                    run.drop()
                    run.forward(step)
            run.step()
            run.drop()
    return run.result.cut(length)


def label_scores_after(model: Model, batch: Batch, config: EMConfig) -> Tensor:
    """Label scores [B, T, C] after EM that looks at no value: a GPU can replay it as a graph.

    Every sentence takes every step, and padding is not left out: the same as ``minimise_entropy`` at the words.
    """
    if config.adaptive or config.positions != "words":
        raise ValueError("which sentences are done, and how far the release pads, depends on the batch")
    with _frozen(model), torch.enable_grad():
        run = _Run(model, batch, config, weights=False, packing=None)
        for step in range(config.steps):
            run.forward(step)
            run.step()
        with torch.no_grad():
            run.forward(config.steps)
    return run.logits


def uncertain(logits: Tensor, batch: Batch, config: EMConfig) -> Tensor:
    """The sentences [B'] that have something to gain, by label scores [B, T, C] without EM."""
    entropy = _sentence_entropy(position_entropy(logits), batch, "words")
    return (entropy >= config.skip_below).nonzero().squeeze(1)


@dataclass
class _Left:
    """The sentences that go on when others have finished, and where their tokens are."""

    sentences: Tensor  # [B'] among those so far
    tokens: Tensor  # [P'] among the tokens so far
    tokens_at_end: Tensor  # [W'] the same in the last layer
    batch: Batch
    packing: Packing


class _Run:
    """A batch on its way through EM. Finished sentences leave it, so that they cost nothing more."""

    logits: Tensor  # [B, T, C] of the last forward, for the sentences still here, as all below
    entropy: Tensor  # [B]

    def __init__(self, model: Model, batch: Batch, config: EMConfig, weights: bool, packing: Packing | None) -> None:
        self.model, self.batch, self.config, self.weights, self.packing = model, batch, config, weights, packing
        first, last = config.first_layer(model.encoder.depth), model.encoder.depth - 1
        self.leaves = _Leaves(config, self.packing, first, last)
        self.prefix = None
        if first > 0 or model.invertible != "mixed":  # else the embeddings move, too
            with torch.no_grad():
                self.prefix = model.prefix(batch, first, self.leaves.choose, self.packing)
        self.rows = torch.arange(len(batch.rows), device=batch.rows.device)  # [B] places in the whole batch
        self._left: _Left | None = None  # where others have finished
        self._tags = batch.input_ids  # [B, T] after the last step
        self._unchanged = torch.zeros_like(self.rows)  # [B] for how many steps they have been the same
        self._result: EMResult | None = None

    @property
    def result(self) -> EMResult:
        assert self._result is not None
        return self._result

    def forward(self, step: int) -> None:
        """Label scores and entropy after so many steps."""
        self.logits = self.model(
            self.batch,
            choose=self.leaves.choose,
            prefix=self.prefix,
            recompute=self.config.recompute,
            packing=self.packing,
        )
        self._per_position = position_entropy(self.logits)  # [B, T]
        self.entropy = _sentence_entropy(self._per_position, self.batch, "words").detach()
        if self._result is None:
            weights = self.leaves.before() if self.weights else None
            logits = torch.empty_like(self.logits, requires_grad=False)
            after = None if weights is None else weights.clone()
            self._result = EMResult(logits, weights, after, torch.zeros_like(self.rows))
        history = self._result.entropy
        whole = history[-1].clone() if history else torch.empty_like(self.entropy)
        history[step:] = [whole.index_copy_(0, self.rows, self.entropy)]

    def certain(self) -> Tensor:
        """Which sentences [B] have nothing to gain."""
        self._tags = self._best()
        return self.entropy < self.config.skip_below

    def settled(self) -> Tensor:
        """Which sentences [B] have kept their tags for long enough; to be asked once after each step."""
        tags = self._best()
        self._unchanged = torch.where((tags == self._tags).all(dim=-1), self._unchanged + 1, 0)
        self._tags = tags
        return (self._unchanged >= self.config.patience) & (self.config.patience > 0)

    def _best(self) -> Tensor:
        """The tag of each word [B, T]; -1 elsewhere."""
        return self.logits.detach().argmax(dim=-1).where(self.batch.words, -1)

    def step(self) -> None:
        # the sum over sentences: each sentence's scores get the gradient of its own entropy alone
        self.leaves.step(_sentence_entropy(self._per_position, self.batch, self.config.positions).sum())

    def part(self, step: int, finished: Tensor) -> int:
        """Finish these sentences [B] and make ready to drop them; gives how many are left.

        Here, where the device has to be waited for anyway, so that a step and the forward after it need not wait.
        """
        done, left = finished.nonzero().squeeze(1), (~finished).nonzero().squeeze(1)
        self._left = None
        if len(done):
            self.finish(step, done)
        if len(done) and len(left):
            batch = Batch(**{name: value[left] for name, value in vars(self.batch).items()})
            below, at_end = (self.leaves.tokens(layer, ~finished) for layer in (self.leaves.last - 1, self.leaves.last))
            self._left = _Left(left, below, at_end, batch, _packing(batch, self.config, rounded=False))
        return len(left)

    def finish(self, step: int, done: Tensor | None = None) -> None:
        """Keep what these sentences (all, if not told) have come to after so many steps."""
        rows, logits = self.rows, self.logits.detach()
        if done is not None:
            rows, logits = rows[done], logits[done]
        self.result.steps[rows] = step
        self.result.logits[rows] = logits
        if self.result.after is not None:
            after = self.leaves.after()
            self.result.after[:, rows] = after if done is None else after[:, done]

    def leave(self) -> None:
        """End here, with the others as they are."""
        assert self._left is not None
        self.finish(0)
        self.result.left = self._left.sentences

    def drop(self) -> None:
        """Leave finished sentences out of all that follows."""
        left, self._left = self._left, None
        if left is None:
            return
        keep = left.sentences
        self.rows, self._unchanged, self._tags = self.rows[keep], self._unchanged[keep], self._tags[keep]
        self.batch, self.packing = left.batch, left.packing
        if self.prefix is not None:
            at_end = self.prefix.layer == self.leaves.last
            self.prefix = self.prefix.keep(left.tokens_at_end if at_end else left.tokens)
        self.leaves.keep(left)


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


def _packing(batch: Batch, config: EMConfig, rounded: bool | None = None) -> Packing:
    if config.positions == "all":  # a longer sentence counts whole, but not the padding that others give it
        counted = batch.mask.sum(dim=1, keepdim=True).clamp(min=PADDED)  # [B, 1]
        everywhere = torch.arange(batch.mask.shape[1], device=batch.mask.device) < counted  # [B, T]
        return Packing(everywhere, everywhere, rounded=rounded)
    return Packing(batch.mask, batch.words, rounded=rounded)


class _Leaves:
    """The scores of every layer: made in the first forward, moved after each, but for the layers below ``first``."""

    def __init__(self, config: EMConfig, packing: Packing | None, first: int, last: int) -> None:
        self.config, self.packing, self.first, self.last = config, packing, first, last
        # the model's own scores [1, P, K, N]; of invertible blocks (-1) [B, 1, K, N]; without packing [B, T, K, N]
        self.base: dict[int, Tensor] = {}
        self.moves: dict[int, Tensor] = {}  # what EM adds to them; [B, 1, K, N] when tied
        self.moved = False

    def choose(self, layer: int, compute: Callable[[], Tensor]) -> Tensor:
        if layer not in self.base:
            with torch.no_grad():
                scores = compute()
                scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # small moves must not be lost
                if self.config.start == "probabilities":
                    scores = scores.softmax(dim=-1)
            self.base[layer] = scores
            if self.first == 0 or layer >= self.first:
                rows, columns = scores.shape[:2]
                if self.config.tied and layer >= 0:
                    rows, columns = rows if self.packing is None else self.packing.shape[0], 1
                self.moves[layer] = scores.new_zeros(rows, columns, *scores.shape[2:]).requires_grad_()
        return self._weights(layer)

    def _weights(self, layer: int) -> Tensor:
        if layer not in self.moves:
            base = self.base[layer]
            return base if self.config.start == "probabilities" else base.softmax(dim=-1)
        move = self.moves[layer]
        if self.config.tied and layer >= 0 and self.packing is not None:
            move = move.transpose(0, 1).index_select(1, self.packing.sentences(layer == self.last))
        scores = self.base[layer] + move
        if self.config.start == "probabilities" and not self.moved:
            return scores  # already a distribution; the release softmaxes it only after the first update
        return scores.softmax(dim=-1)

    def step(self, loss: Tensor) -> None:
        gradients = torch.autograd.grad(loss, list(self.moves.values()))
        with torch.no_grad():
            for move, gradient in zip(self.moves.values(), gradients, strict=True):
                move -= self.config.lr * gradient
        self.moved = True

    def tokens(self, layer: int, sentences: Tensor) -> Tensor:
        """Those of a layer's tokens that are in these sentences [B]."""
        assert self.packing is not None
        rows = self.packing.rows
        return sentences[rows[self.packing.wanted] if layer == self.last else rows].nonzero().squeeze(1)

    def keep(self, left: _Left) -> None:
        """Go on with these sentences alone."""
        for held in (self.base, self.moves):
            for layer, value in held.items():
                if layer < 0 or (held is self.moves and self.config.tied):  # by sentence
                    kept = value.detach()[left.sentences]
                else:
                    kept = value.detach()[:, left.tokens_at_end if layer == self.last else left.tokens]
                held[layer] = kept.requires_grad_(held is self.moves)
        self.packing = left.packing

    @torch.no_grad()
    def before(self) -> Tensor:
        assert self.packing is not None
        own = self.config.start == "probabilities"
        weights = {layer: self.base[layer] if own else self.base[layer].softmax(dim=-1) for layer in self._layers()}
        return torch.stack([self.packing.spread(each, last=layer == self.last) for layer, each in weights.items()])

    @torch.no_grad()
    def after(self) -> Tensor:
        assert self.packing is not None
        layers = self._layers()
        return torch.stack([self.packing.spread(self._weights(layer), last=layer == self.last) for layer in layers])

    def _layers(self) -> list[int]:
        return [layer for layer in sorted(self.base) if layer >= 0]


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """No weight asks for a gradient, and nothing is dropped, while EM runs."""
    training = [module for module in model.modules() if module.training]
    asking = [p for p in model.parameters() if p.requires_grad]
    for parameter in asking:
        parameter.requires_grad_(False)
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)
        for module in training:
            module.training = True
