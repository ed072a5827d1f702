"""Measure the gain of each trick of `zgul.fast`, on the shipped tagger and at mBERT's width, by switching it off.

A trick must gain 10% on the shipped tagger, which most users run. Batches are those of a real file, as
`Tagger.predict` makes them. EM takes one step, as adaptive EM does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import NamedTuple
from unittest import mock

import torch
from torch import Tensor

from benchmarks.em_rows import adaptive_jobs
from benchmarks.harness import Contestant, NotMeasured, Result, assert_same, interleave, say
from benchmarks.process_rows import stream_marks
from benchmarks.setup import Context, encode, random_tagger, with_random_pieces
from zgul.devices import moved_copy
from zgul.encoders.batches import Batch
from zgul.ensemble.em import EMConfig
from zgul.fast import engine as engine_module
from zgul.fast.engine import Engine, engine
from zgul.methods.model import Inferred, infer
from zgul.tagger import Tagger

LEAST = 1.1  # the least gain of a trick
SHIPPED, WIDE = "shipped tagger", "mBERT's width"
MODES = {"tagging": None, "EM": EMConfig(steps=1, lr=10.0)}
TOLERANCE = 1e-3  # of the largest number; padding and graphs change the order of sums
Run = Callable[[Batch, EMConfig | None], Inferred]


@dataclass(frozen=True)
class Trick:
    """A trick and how it is switched off."""

    name: str
    off: Callable[[Tagger], Run] = lambda tagger: tagger.engine  # what runs instead
    without: Callable[[], AbstractContextManager[object]] = nullcontext
    modes: tuple[str, ...] = tuple(MODES)
    gpu_only: bool = False


def _unfolded(tagger: Tagger) -> Engine:
    plain = engine(tagger.model, tagger.device)
    plain.model = moved_copy(tagger.model, tagger.device, frozen=True).eval()
    return plain


TRICKS = (
    Trick("folding", off=_unfolded),
    Trick("packing", off=lambda tagger: partial(infer, tagger.engine.model)),
    Trick("graphs", without=lambda: mock.patch.object(engine_module, "GRAPHED", 0), gpu_only=True),
)


def tricks(context: Context) -> list[Result]:
    """All tricks that are exact, then adaptive EM and release_memory."""
    used = [trick for trick in TRICKS if context.on_gpu or not trick.gpu_only]
    results = {trick.name: _result(trick.name, "the same without it") for trick in used}
    for place in measured_places(context):
        for mode in MODES:
            _measure(context, place, mode, {t: results[t.name] for t in used if mode in t.modes})
    for result in results.values():
        gains = {where: result.ratios(f"{where}: off", f"{where}: on") for where in result.details["gains"]}
        shipped = [rounds for where, rounds in gains.items() if where.startswith(SHIPPED)]
        result.judge(max(shipped, key=median), lambda value: value >= LEAST)
        result.details["gains"] = {where: median(rounds) for where, rounds in gains.items()}
    return [*results.values(), adaptive_trick(context), memory_trick(context)]


def _result(name: str, against: str) -> Result:
    result = Result(f"trick-{name.replace(' ', '-')}", f"trick: {name}", against, f"≥ {LEAST}×")
    result.details["gains"] = {}  # by place and mode
    return result


class Place(NamedTuple):
    """Where tricks are measured."""

    name: str
    tagger: Tagger
    batches: list[Batch]


def measured_places(context: Context) -> Iterator[Place]:
    """The shipped tagger and a random one of mBERT's width, each with the batches of a real file."""
    shipped = context.tagger("germanic-pos")
    wide = random_tagger(context.sizes.bert, 4).to(context.device)
    for name, tagger, limit in zip((SHIPPED, WIDE), (shipped, wide), context.sizes.tricks, strict=True):
        corpus = encode(shipped, context.sentences("pos", "fo", limit=limit))
        corpus = with_random_pieces(corpus, tagger) if tagger is wide else corpus
        yield Place(name, tagger, list(corpus.batches(tagger.engine.max_tokens, **tagger.engine.shapes)))


def _measure(context: Context, place: Place, mode: str, results: dict[Trick, Result]) -> None:
    """Time the engine and each trick's absence, all in turn."""
    where, tagger = f"{place.name}, {mode}", place.tagger
    say(f"  {where}")

    def read_all(run: Run, without: Callable[[], AbstractContextManager[object]] = nullcontext) -> Tensor:
        with without():
            return torch.cat([run(batch, MODES[mode]).logits[batch.words] for batch in place.batches])

    contestants: dict[str, Contestant] = {"engine": partial(read_all, tagger.engine)}
    expected = read_all(tagger.engine)
    for trick, result in results.items():
        contestants[trick.name] = run = partial(read_all, trick.off(tagger), trick.without)
        same = assert_same(where, run(), expected, TOLERANCE)
        result.compared = f"{result.compared}; {same}" if result.compared else same
    times = interleave(contestants, context.sizes.rounds, warm=3 if context.on_gpu else 1)
    for trick, result in results.items():
        result.times |= {f"{where}: on": times["engine"], f"{where}: off": times[trick.name]}
        result.details["gains"][where] = None  # computed from the times in the end


def adaptive_trick(context: Context) -> Result:
    """Adaptive EM against full EM as tuned, on the languages that use EM."""
    result = _result("adaptive EM", "full EM, on the test files of languages that use EM")
    jobs = [job for job in adaptive_jobs(context, 0, context.sizes.adaptive_sentences) if job.em.steps]
    contestants = {
        "on": lambda: [job.tag(adaptive=True) for job in jobs],
        "off": lambda: [job.tag(adaptive=False) for job in jobs],
    }
    result.times = interleave(contestants, 3, warm=2 if context.on_gpu else 0)
    result.compared = "not the same tags; the row on adaptive EM compares F1"
    result.judge(result.ratios("off", "on"), lambda value: value >= LEAST)
    result.details["gains"][f"{SHIPPED}, EM"] = result.value
    return result


def memory_trick(context: Context) -> Result:
    """The memory of a stream without release_memory, against the same with it."""
    result = _result("release_memory", "the memory of the same stream without it")
    try:
        on, off = (stream_marks(context, keep_memory)[0] for keep_memory in (False, True))
    except NotMeasured as error:
        result.reason = f"not measured: {error}"
        return result
    pairs = list(zip(on, off, strict=False))
    result.judge([without["memory"] / own["memory"] for own, without in pairs], lambda value: None)
    result.value = gain = pairs[-1][1]["memory"] / pairs[-1][0]["memory"]
    result.met = gain >= LEAST
    result.details["gains"][f"{SHIPPED}, tagging"] = gain
    own, without = (f"{mark['memory'] / 1e6:.0f} MB" for mark in pairs[-1])
    result.notes.append(f"After {pairs[-1][0]['sentences']:,} sentences: {own} with it, {without} without.")
    return result
