"""Rows on training: a tagger against fine-tuning, and language adapters by masked language modelling."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness import NotMeasured, Result, Unequal, assert_same, interleave
from benchmarks.setup import Context, load_encoder
from zgul.adapters.bank import Bank
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import shipped_adapters
from zgul.encoders.batches import IGNORED, Batch, EncodedCorpus, PieceEncoder
from zgul.languages import GROUPS
from zgul.tagger import Tagger
from zgul.training.config import TrainingConfig
from zgul.training.labelled_data import labelled_data
from zgul.training.masked_lm import MaskedLM, MLMConfig, MLMHead, mask_pieces, train_masked_lm
from zgul.training.optimiser import Optimiser, Stepper
from zgul.training.trainer import LENGTH_STEP

METHODS = ("zgul", "sft-m")
BLOCK = 128  # pieces


def training(context: Context) -> Result:
    """Training ZGUL against fine-tuning (SFT-M), on the same batches."""
    (count, rows), most = context.sizes.training, 1.2 if context.on_gpu else 1.5
    result = Result(
        "training",
        f"training, ZGUL epoch ({count} batches of {rows} sentences), embedded encoder",
        "our SFT-M epoch, same batches",
        f"≤ {most}× its time",
    )
    sources = GROUPS["germanic"].sources
    wanted = -(-count * rows // len(sources))
    train = [s for language in sources for s in context.sentences("pos", language, "train", limit=wanted)]
    data = labelled_data(train, [], TrainingConfig(sources=sources))
    steppers, batches = {}, list[Batch]()
    for name in METHODS:
        torch.manual_seed(0)
        tagger = Tagger.new(
            name,
            encoder=load_encoder(context.encoder),
            task="pos",
            labels=data.labels,
            sources=sources,
            adapters=shipped_adapters(sources),
        ).to(context.device)
        if not batches:
            corpus = data.encode(train, tagger.pieces, tagger.language_table(list(sources)))
            batches = training_batches(corpus.to(context.device), count, rows)
        optimiser = Optimiser(tagger.model.train(), lr=1e-4)
        steppers[name] = Stepper(tagger.model, optimiser, data.allowed.to(context.device), rows, "float32")
    losses: dict[str, list[float]] = {name: [] for name in METHODS}

    def epoch(name: str) -> None:
        total = torch.zeros((), device=context.device)
        for batch in batches:
            total += steppers[name].step(batch)
        losses[name].append(float(total / len(batches)))

    contestants = {name: partial(epoch, name) for name in METHODS}
    # on a GPU, the first two calls of a shape are plain, and the third is captured
    result.times = interleave(contestants, context.sizes.rounds, warm=3 if context.on_gpu else 1)
    for name, course in losses.items():
        if not course[-1] < course[0]:
            raise Unequal(f"the loss of {name} did not fall: {course[0]:.3f} to {course[-1]:.3f}")
    shown = ", ".join(f"{name} {course[0]:.2f} to {course[-1]:.2f}" for name, course in losses.items())
    result.compared = f"two models, whose losses both fall: {shown}"
    result.judge(result.ratios(*METHODS), lambda value: value <= most)
    tokens = sum(int(batch.mask.sum()) for batch in batches)
    result.details = {"tokens_per_second": tokens / result.median("zgul")}
    return result


def training_batches(corpus: EncodedCorpus, count: int, rows: int) -> list[Batch]:
    """Batches of similar length in random order, as the training loop makes them. Few shapes occur."""
    rng = np.random.default_rng(0)
    lengths = corpus.lengths.cpu().numpy() + 2
    order = rng.permutation(len(lengths))[: count * rows]
    order = order[np.argsort(lengths[order], kind="stable")]
    batches = []
    for index in rng.permutation(len(order) // rows):
        chosen = order[index * rows : (index + 1) * rows]
        longest = int(-(-int(lengths[chosen].max()) // LENGTH_STEP) * LENGTH_STEP)
        batches.append(corpus.batch(torch.from_numpy(chosen.copy()).to(corpus.starts.device), longest))
    if not batches:
        raise NotMeasured(f"fewer than {rows} training sentences")
    return batches


def mlm(context: Context) -> Result:
    """Language adapters by masked LM: all languages at once, and scores of masked places only."""
    languages, blocks, steps = context.sizes.mlm
    result = Result(
        "mlm",
        f"language adapter MLM training, {languages} languages at once, {blocks} blocks of {BLOCK} pieces each",
        "a plain autograd loop: one language at a time, scores of the whole vocabulary at every position",
        "≥ 3× tokens a second",
    )
    if not context.on_gpu and not context.full:
        raise NotMeasured("has a target on a GPU only; --full measures it here too")
    encoder, tokenizer = load_encoder(context.encoder)
    encoder, vocabulary = encoder.to(context.device), encoder.config.vocabulary
    head = MLMHead(encoder.width, vocabulary).to(context.device).requires_grad_(False)
    adapters = [LanguageAdapter.new(f"language{n}", encoder.width, encoder.depth) for n in range(languages)]
    for layer in (layer for adapter in adapters for layer in adapter.layers):
        nn.init.normal_(layer.up.weight, std=0.02)
    banks = [Bank(own, width=encoder.width, depth=encoder.depth) for own in (adapters, adapters[:1])]
    pieces = PieceEncoder(tokenizer, encoder.max_pieces)
    ours, plain = (MaskedLM(encoder, head, b.to(context.device).requires_grad_(True), pieces) for b in banks)
    texts = [torch.randint(10, vocabulary, (4 * blocks, BLOCK), dtype=torch.int32) for _ in adapters]
    result.compared = same_loss(ours, plain, torch.cat([text[:blocks] for text in texts]).long().to(context.device))
    few, config = max(2, steps // 8), MLMConfig(steps=steps, blocks=blocks)
    loop = partial(_plain_loop, plain, texts[0].to(context.device), few, blocks)
    contestants = {"zgul": lambda: train_masked_lm(ours, texts, config), "plain loop": loop}
    result.times = interleave(contestants, min(5, context.sizes.rounds))
    tokens = {"zgul": steps * languages * blocks * BLOCK, "plain loop": few * blocks * BLOCK}
    share = tokens["zgul"] / tokens["plain loop"]
    result.judge([share * ratio for ratio in result.ratios("plain loop", "zgul")], lambda value: value >= 3)
    result.details = {"tokens_per_second": {name: tokens[name] / result.median(name) for name in tokens}}
    result.notes.append("On a GPU both are in bf16, and our times include capturing a graph in every round.")
    return result


def full_loss(model: MaskedLM, ids: Tensor, languages: int = 1) -> Tensor:
    """The loss of the masked places of the first of ``languages``, with scores of all pieces at every position."""
    shown, places, truth = mask_pieces(ids, model.masked, model.mask_id, model.vocabulary, model.specials)
    rows = len(ids) // languages
    everywhere = torch.full_like(ids, IGNORED).scatter(1, places, truth)[:rows]
    hidden = model.head.transform(model.hidden(shown[:rows]))
    scores = model.head.decode(hidden, model.encoder.words.weight)  # [B, T, V]
    return F.cross_entropy(scores.float().flatten(0, 1), everywhere.flatten(), ignore_index=IGNORED)


@torch.no_grad()
def same_loss(ours: MaskedLM, plain: MaskedLM, ids: Tensor) -> str:
    """Compare the losses of the first language for the same masks."""
    assert ours.bank is not None
    languages = len(ours.bank)
    torch.manual_seed(0)
    scores, truth = ours.eval()(ids)
    first = F.cross_entropy(scores.view(languages, -1, ours.vocabulary)[0], truth.view(languages, -1)[0])
    torch.manual_seed(0)
    return assert_same("loss of the first language, fp32", first, full_loss(plain.eval(), ids, languages), 1e-4)


def _plain_loop(model: MaskedLM, text: Tensor, steps: int, blocks: int) -> None:
    """Training of one adapter in a few lines of torch."""
    assert model.bank is not None
    optimiser = torch.optim.AdamW(model.bank.parameters(), lr=1e-3, weight_decay=0.01)
    for step in range(steps):
        at = step % 4 * blocks
        optimiser.zero_grad()
        with torch.autocast(text.device.type, torch.bfloat16, enabled=text.is_cuda):
            loss = full_loss(model, text[at : at + blocks].long())
        loss.backward()
        nn.utils.clip_grad_norm_(model.bank.parameters(), 1.0)
        optimiser.step()
