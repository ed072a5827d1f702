"""Rows on tagging: EM against the release's procedure, bfloat16 against float32, adaptive EM against the encoder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from statistics import mean

import torch

from benchmarks.harness import NotMeasured, Result, Unequal, assert_same_tags, interleave, seconds_of
from benchmarks.reference import Release, tag_by_release
from benchmarks.setup import Context, encode, encode_packed
from zgul.cli.products import faster_products
from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import EMConfig
from zgul.evaluation import scores
from zgul.fast.adaptive import AdaptiveEM
from zgul.fast.int8 import fast_in_int8
from zgul.languages import GROUPS, find
from zgul.tagger import Tagger

EM = EMConfig(steps=10, lr=10.0)
SAME_TAGS = {"bf16": 0.99, "int8": 0.98, "onednn": 0.9999}  # that a faster way keeps
ROUGH_F1 = 0.2  # the F1 that it may lose
ADAPTIVE_F1 = 0.2  # the F1 that adaptive EM may lose


def em(context: Context, precision: str = "float32") -> Result:
    """EM tagging against the release's procedure, whose tags are computed in float32."""
    exact, least = precision == "float32", 150 if context.on_gpu else 12
    result = Result(
        "em" if exact else "em-bf16",
        f"EM tagging, T = {EM.steps}, Faroese test file, embedded encoder, {'fp32' if exact else 'bf16'}",
        "the release's procedure, written by us: one sentence at a time, padded to 128, T + 2 full forward passes",
        f"≥ {least}×",
    )
    exact_tagger = context.tagger("germanic-pos")
    tagger, release = replace(exact_tagger, precision=precision), Release(exact_tagger.model)
    whole = context.sentences("pos", "fo", limit=context.sizes.em_sentences)
    sample = whole[: context.sizes.reference_sentences]
    slow = list(tag_by_release(release, exact_tagger, sample, EM))
    result.compared = assert_same_tags("tags of the sample in fp32", _tag(exact_tagger, sample, EM), slow)
    tags = _tag(exact_tagger, whole, EM)
    result.compared += "; " + assert_same_tags("the same in the batches of the file", tags[: len(sample)], slow)
    if not exact:
        result.compared += "; " + assert_close_tags(whole, _tag(tagger, whole, EM), tags)
    contestants = {
        "release, sample": lambda: list(tag_by_release(release, exact_tagger, sample, EM)),
        "zgul, file": lambda: _tag(tagger, whole, EM),
    }
    result.times = interleave(contestants, 3, warm=0)
    share = len(whole) / len(sample)
    result.judge([share * ratio for ratio in result.ratios("release, sample", "zgul, file")], lambda v: v >= least)
    result.notes.append(
        f"The release's procedure ran on a fixed random sample of {len(sample)} sentences. Its time is scaled to the "
        f"{len(whole)} sentences that zgul tagged: it pads all to one length, so each costs the same."
    )
    result.details["words_per_second"] = sum(map(len, whole)) / result.median("zgul, file")
    return result


def _tag(tagger: Tagger, sentences: Sequence[Sentence], em: EMConfig, skip_below: float = 0.0) -> list[list[str]]:
    predictions = tagger.predict(sentences, strategy="em", em=em, skip_below=skip_below)
    return [prediction.tags for prediction in predictions]


def assert_close_tags(
    sentences: Sequence[Sentence], ours: list[list[str]], exact: list[list[str]], name: str = "bf16"
) -> str:
    """Raise `Unequal` if a rougher precision changes too many tags, or loses more than 0.2 F1."""
    gold = [sentence.tags or [] for sentence in sentences]
    f1 = [scores(gold, tags).f1 for tags in (ours, exact)]
    pairs = [a == b for one, other in zip(ours, exact, strict=True) for a, b in zip(one, other, strict=True)]
    same = sum(pairs) / len(pairs)
    shown = f"in {name} {same:.2%} of the tags are the same, F1 {f1[0]:.2f} against {f1[1]:.2f}"
    if same < SAME_TAGS[name] or f1[0] < f1[1] - ROUGH_F1:
        raise Unequal(shown)
    return shown


@contextmanager
def as_the_command_line() -> Iterator[None]:
    """Multiply as `zgul tag` does. Elsewhere torch chooses for itself, as in a user's own program."""
    products = torch.backends.mkldnn.matmul
    before = products.fp32_precision
    faster_products()
    try:
        yield
    finally:
        products.fp32_precision = before


def tag_rough(context: Context, name: str = "bf16", least: float = 1.0, task: str = "pos") -> Result:
    """Tagging by faster products against float32: bfloat16, int8, and float32 by oneDNN (`as_the_command_line`)."""
    shipped, language = ("african-ner", "ha") if task == "ner" else ("germanic-pos", "fo")
    what, goal = f"tagging without EM in {name}, test file of {find(language)}, {shipped}", f"≥ {least:g}×"
    row = f"tag-{name}-{task}" if task == "ner" else f"tag-{name}"
    result = Result(row, what, "the same in fp32", goal if least > 1 else "faster")
    if name == "int8" and (context.on_gpu or not fast_in_int8()):
        raise NotMeasured("it needs a CPU that is fast in int8, onnx and onnxruntime")
    exact = replace(context.tagger(shipped), precision="float32")
    rough = replace(exact, precision={"bf16": "bfloat16", "onednn": "float32"}.get(name, name))
    # int8 reads sentences of one length together, and finds as many as in a window of `zgul tag`
    limit = context.sizes.em_sentences * (4 if name == "int8" else 1)
    sentences = context.sentences(task, language, limit=limit)

    def tag(tagger: Tagger) -> list[list[str]]:
        return [prediction.tags for prediction in tagger.predict(sentences, strategy="plain")]

    def tag_roughly() -> list[list[str]]:
        with as_the_command_line() if name != "bf16" else nullcontext():
            return tag(rough)

    result.compared = assert_close_tags(sentences, tag_roughly(), tag(exact), name)
    result.times = interleave({"fp32": lambda: tag(exact), name: tag_roughly}, context.sizes.rounds, warm=0)
    result.judge(result.ratios("fp32", name), lambda value: value > 1 and value >= least)
    result.details["words_per_second"] = sum(map(len, sentences)) / result.median(name)
    return result


@dataclass
class CorpusJob:
    """A test file and how it is tagged."""

    language: str
    tagger: Tagger
    sentences: list[Sentence]
    em: EMConfig  # full EM

    def tag(self, *, adaptive: bool) -> list[list[str]]:
        rule = AdaptiveEM()
        if adaptive:
            return _tag(self.tagger, self.sentences, rule.cheaper(self.em), rule.skip_below)
        return _tag(self.tagger, self.sentences, self.em)

    @torch.no_grad()
    def encode(self) -> None:
        """The plain encoder on the batches in which these sentences are tagged."""
        engine = self.tagger.engine
        for batch in encode(self.tagger, self.sentences).batches(engine.max_tokens, **engine.shapes):
            encode_packed(engine.model.encoder, batch)

    def f1(self, *, adaptive: bool) -> float:
        return scores([sentence.tags or [] for sentence in self.sentences], self.tag(adaptive=adaptive)).f1


def adaptive_jobs(context: Context, steps: int, limit: int) -> list[CorpusJob]:
    """The paper's test files. With ``steps``, all languages take this many, otherwise the steps they were tuned to."""
    jobs = []
    for group in GROUPS.values():
        tagger = replace(context.tagger(f"{group.name}-{group.task}"))  # with an engine that has seen no batch
        for language in group.targets:
            em = tagger.em_for(language, "em") or EMConfig()
            em = replace(em, steps=steps, lr=max(em.lr, 1.0)) if steps else em
            jobs.append(CorpusJob(language, tagger, context.sentences(group.task, language, limit=limit), em))
    return jobs


def adaptive(context: Context, steps: int = 0) -> Result:
    """Adaptive EM on the paper's 15 test files."""
    result = Result(
        "adaptive-t10" if steps else "adaptive",
        f"adaptive EM, 15 test files, {f'T = {steps} for every language' if steps else 'T as tuned by language'}",
        "the plain encoder on the same batches; F1 against full EM",
        f"≤ 3× its time at ≤ {ADAPTIVE_F1} F1 below full EM",
    )
    limit = 0 if context.full else context.sizes.adaptive_sentences
    jobs = adaptive_jobs(context, steps, limit)
    once = seconds_of(lambda: [job.tag(adaptive=True) for job in jobs])
    f1 = {name: {job.language: job.f1(adaptive=name == "adaptive") for job in jobs} for name in ("adaptive", "full")}
    means = {name: mean(each.values()) for name, each in f1.items()}
    loss, allowed = means["full"] - means["adaptive"], math.inf if limit else ADAPTIVE_F1
    result.compared = f"F1, mean of the 15 files: {means['adaptive']:.2f} adaptive, {means['full']:.2f} full EM"
    contestants = {
        "adaptive EM": lambda: [job.tag(adaptive=True) for job in jobs],
        "plain encoder": lambda: [job.encode() for job in jobs],
    }
    result.times = interleave(contestants, 3, warm=2 if context.on_gpu else 0)
    result.judge(result.ratios("adaptive EM", "plain encoder"), lambda value: value <= 3 and loss <= allowed)
    if context.on_gpu:
        result.notes.append(f"The first pass, before any graph was captured, took {once:.2f} s.")
    if limit:
        result.notes.append(f"F1 on {limit} sentences of each file is noise, so only the time is judged here.")
    result.details |= {"f1": f1, "f1_loss": loss, "sentences": sum(len(job.sentences) for job in jobs)}
    return result
