"""Untrained taggers on a made-up family, with random weights in every place: ``from small_tagger import small_tagger``.

New adapters, W_v and C start at values that hide mistakes (zero, the identity), so everything but the encoder is
drawn afresh here.
"""

from collections.abc import Sequence

import torch

from family import FUNCTION_WORDS, MARKED, Family, family, tiny_encoder
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import Batch
from zgul.methods import MethodOptions
from zgul.tagger import Tagger

LABELS = sorted(set(MARKED) | set(FUNCTION_WORDS))
MADE: Family = family(0, n_languages=4)
WIDTH = 16


def small_adapters(
    made: Family = MADE,
    *,
    invertible: bool = False,
    seed: int = 0,
    depth: int = 2,
    size: int | None = None,
    standardise: bool = False,
) -> list[LanguageAdapter]:
    """Random adapters of several sizes (or of this one) and activations for the family's sources.

    With ``standardise`` the second one is as AdapterHub's ``ln_before``.
    """
    adapters = [
        LanguageAdapter.new(
            source,
            WIDTH,
            depth,
            size=size or (8 if n % 2 else 5),
            activation="gelu" if n else "relu",
            invertible=invertible,
        )
        for n, source in enumerate(made.sources)
    ]
    generator = torch.Generator().manual_seed(seed)
    for layer in adapters[1].layers:
        layer.standardise = standardise
    for adapter in adapters:
        for module in [*adapter.layers, *([adapter.invertible] if adapter.invertible else [])]:
            _randomise(module, generator)
    return adapters


def small_tagger(
    method: str = "zgul",
    *,
    task: str = "pos",
    labels: list[str] | None = None,
    options: MethodOptions | None = None,
    double: bool = False,
    random: bool = True,
    features: bool = True,
    depth: int = 2,
    size: int | None = None,
    scale: float = 0.4,
    standardise: bool = False,
    modern: bool = False,
) -> Tagger:
    """A tagger for the sources of ``MADE``. ``double`` is for comparisons to the last digit.

    ``scale`` is the standard deviation of random weights: large enough that a mistake anywhere shows.
    """
    options = options or MethodOptions(dropout=0.0)
    with torch.random.fork_rng(devices=[]):  # the same weights, whatever ran before
        torch.manual_seed(1)
        tagger = Tagger.new(
            method,
            encoder=tiny_encoder(MADE, layers=depth, width=WIDTH, modern=modern),
            task=task,
            labels=labels or LABELS,
            sources=MADE.sources,
            adapters=small_adapters(
                invertible=options.invertible != "off", depth=depth, size=size, standardise=standardise
            ),
            options=options,
            features={language: MADE.features(language) for language in MADE.languages} if features else None,
        )
    tagger.model.double() if double else tagger.model.float()
    tagger.model.eval()
    if random:
        generator = torch.Generator().manual_seed(1)
        for name, part in tagger.model.named_children():
            if name not in ("encoder", "bank"):
                _randomise(part, generator, scale)
        with torch.no_grad():
            for name, weight in tagger.model.encoder.named_parameters():
                if name.endswith(".b"):  # low-rank updates start at nothing
                    weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
    return tagger


def small_batch(
    tagger: Tagger, sentences: Sequence[Sentence], *, strategy: str | None = None, padding: int = 0, empty: int = 0
) -> Batch:
    """All sentences in one batch, with ``padding`` behind the longest and ``empty`` rows at the end."""
    languages = tagger.language_table(
        MADE.languages, strategy or ("rel" if "rel" in tagger.method.strategies else None)
    )
    labels = {label: n for n, label in enumerate(tagger.labels)}
    encoded = tagger.pieces.encode(sentences, languages=languages, labels=labels)
    length = int(encoded.lengths.max()) + 2 + padding
    return encoded.batch(torch.tensor([*range(len(encoded)), *[-1] * empty]), length)


def mixed_sentences() -> list[Sentence]:
    """Sentences of several languages and lengths. The first changes its language with every word."""
    sentences = [sentence for language in ("target", "s1") for sentence in MADE.sentences(language, 3)]
    codes = [("s0", "target", "s2")[n % 3] for n in range(len(sentences[0]))]
    sentences[0] = Sentence(sentences[0].words, sentences[0].tags, "target", codes)
    return sentences


@torch.no_grad()
def _randomise(module: torch.nn.Module, generator: torch.Generator, scale: float = 0.4) -> None:
    for weight in module.parameters():
        weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
