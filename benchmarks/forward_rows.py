"""Rows on one forward pass at mBERT's shape: against `adapters`, against the plain encoder, with more adapters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.harness import Contestant, NotMeasured, Result, assert_same, interleave
from benchmarks.machine import count_operations
from benchmarks.peers import adapters_process
from benchmarks.reference import Release
from benchmarks.setup import Context, random_batch, random_tagger
from zgul.encoders.batches import Batch
from zgul.encoders.encoder import state_for_hub
from zgul.encoders.folder import config_for_hub

TOLERANCE = 1e-4  # of the largest number, after all layers
ENCODERS = ("transformers", "our loop")  # the plain encoder is the faster of these
MOST_TIMES_ENCODER, MOST_PER_ADAPTER = 1.65, 0.12
SHAPE = "mBERT shape, {} sentences of {} pieces, fp32"


class Contest:
    """A random model of mBERT's shape: our engine, the reference and the plain encoder, with the same weights."""

    def __init__(self, context: Context, count: int) -> None:
        tagger = random_tagger(context.sizes.bert, count).to(context.device)
        self.engine, self.fused = tagger.engine, Release(tagger.model, fusion_only=True)
        self.batch: Batch = random_batch(*context.sizes.forward, tagger)

    def ours(self) -> Tensor:
        return self.engine(self.batch).logits

    @torch.no_grad()
    def reference(self) -> Tensor:
        return self.fused(self.batch)[0]  # type: ignore[no-any-return]

    def compare(self, name: str, theirs: Tensor) -> str:
        return assert_same(name, self.ours(), theirs, TOLERANCE)

    def encoders(self) -> dict[str, Callable[[], Tensor]]:
        """The plain encoder by transformers and by our own loop."""
        from transformers import BertConfig, BertModel  # a peer: zgul does not need it

        encoder = self.engine.model.encoder
        peer = BertModel(BertConfig(**config_for_hub(encoder.config)), add_pooling_layer=False)
        peer.load_state_dict(state_for_hub(encoder), strict=False)
        peer = peer.eval().requires_grad_(False).to(self.batch.mask.device)
        ids, mask = self.batch.input_ids, self.batch.mask

        @torch.no_grad()
        def loop() -> Tensor:
            return encoder(ids, mask)  # type: ignore[no-any-return]

        return {ENCODERS[0]: lambda: peer(ids, attention_mask=mask.long()).last_hidden_state, ENCODERS[1]: loop}


def forward(context: Context) -> list[Result]:
    """A forward pass without EM, N = 4: against `adapters`, and against the plain encoder."""
    contest, warm = Contest(context, 4), 3 if context.on_gpu else 1
    least = 1.5 if context.on_gpu else 1.25
    measure = f"ZGUL forward without EM, N = 4, {SHAPE.format(*context.sizes.forward)}"
    peer = Result("adapters", measure, "`adapters` 1.3.0, Stack(Fuse(4), task), same weights", f"≥ {least}× faster")
    plain = "the plain encoder (the faster of transformers and our own loop)"
    bare = Result("encoder", measure, plain, f"≤ {MOST_TIMES_ENCODER}× its time")
    encoders = contest.encoders()
    peer.compared = contest.compare("hidden states against our Stack(Fuse)", contest.reference())
    theirs, ours = (encoders[name]() for name in ENCODERS)
    bare.compared = assert_same("plain encoder, our loop against transformers", ours, theirs, TOLERANCE)
    contestants: dict[str, Contestant] = {"zgul": contest.ours, "Stack(Fuse), ours": contest.reference, **encoders}
    against = "Stack(Fuse), ours"
    try:
        with adapters_process(contest.fused, contest.batch) as ask:
            against, theirs = ask("version"), load_file(ask("output"))["hidden"]
            peer.compared += "; " + contest.compare("against `adapters`", theirs)
            contestants[against] = partial(ask, "run")
            times = interleave(contestants, context.sizes.rounds, warm=warm)
    except NotMeasured as error:
        peer.against = "Stack(Fuse(4), task) as `adapters` 1.3.0 computes it, written by us"
        peer.notes.append(f"{error}. The tests compare our own implementation with `adapters` itself.")
        times = interleave(contestants, context.sizes.rounds, warm=warm)
    peer.times = bare.times = times
    peer.judge(peer.ratios(against, "zgul"), lambda value: value >= least)
    fastest = min(ENCODERS, key=bare.median)
    bare.judge(bare.ratios("zgul", fastest), lambda value: value <= MOST_TIMES_ENCODER)
    operations = count_operations(contest.ours) / count_operations(encoders[ENCODERS[1]])
    bare.notes.append(f"Counted in operations alone: {operations:.2f}×. The faster encoder was {fastest}.")
    return [peer, bare]


def count(context: Context) -> Result:
    """N = 2, 4, 8, 16 adapters: what each further adapter costs."""
    result = Result(
        "count",
        f"N = 2, 4, 8, 16 adapters, forward, {SHAPE.format(*context.sizes.forward)}",
        "the growth from N = 2 for each further adapter, as a share of the plain encoder's time",
        f"< {MOST_PER_ADAPTER}",
        unit="of the encoder",
    )
    contests = {n: Contest(context, n) for n in (2, 4, 8, 16)}
    result.compared = "; ".join(contests[n].compare(f"N = {n}", contests[n].reference()) for n in (2, 16))
    contestants: dict[str, Contestant] = {f"N = {n}": contest.ours for n, contest in contests.items()}
    contestants |= contests[2].encoders()
    result.times = interleave(contestants, context.sizes.rounds, warm=3 if context.on_gpu else 1)
    fastest = min(ENCODERS, key=result.median)
    rounds = zip(*(result.times[name] for name in ("N = 16", "N = 2", fastest)), strict=True)
    result.judge([(many - few) / 14 / plain for many, few, plain in rounds], lambda value: value < MOST_PER_ADAPTER)
    return result
