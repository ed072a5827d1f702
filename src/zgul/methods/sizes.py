"""Count the parameters that each method trains, on its own modules at mBERT's size, without allocating memory."""

from collections import Counter
from dataclasses import dataclass

import torch

from zgul.adapters.language_adapter import LanguageAdapter
from zgul.encoders.encoder import Encoder, EncoderConfig
from zgul.methods.base import Method, MethodOptions, Parts

# bert-base-multilingual-cased, which the paper uses
MBERT = EncoderConfig(vocabulary=119547, width=768, depth=12, heads=12, inner=3072, positions=512, types=2)
UPOS_LABELS = 17
# The authors' release has three forms of ZGUL, one for each of these groups. Only the Germanic form rounds to the
# paper's 41 million. The paper's own equations are the African form, and our default.
RELEASE_FORMS = {
    "Germanic": MethodOptions(features="all", l_scores="additive"),
    "African, Indo-Aryan": MethodOptions(features="all"),
    "Slavic": MethodOptions(features="all", combine="max"),
}
PARTS = {  # by the names of the modules
    "encoder": "encoder",
    "bank": "language adapters",
    "generator": "adapter generator",
    "weighting.fusion": "W_q, W_k",
    "weighting.value": "W_v",
    "weighting.lang2vec": "W_L",
    "weighting.vectors": "language vectors",
    "weighting.combine": "C",
    "task": "task adapter",
    "head": "head",
}


@dataclass(frozen=True)
class Sizes:
    """Numbers of parameters by part."""

    trained: dict[str, int]
    frozen: dict[str, int]

    @property
    def trainable(self) -> int:
        return sum(self.trained.values())


def count_parameters(method: Method, options: MethodOptions | None = None) -> Sizes:
    """Count a method's parameters at mBERT's size, with four sources."""
    sources = ["en", "is", "de", "ru"]
    with torch.device("meta"):  # shapes without numbers
        encoder = Encoder(MBERT)
        adapters = [LanguageAdapter.new(source, encoder.width, encoder.depth) for source in sources]
        labels = [str(label) for label in range(UPOS_LABELS)]
        model = method.build(Parts(encoder, labels, sources, adapters, options or MethodOptions()))
    trained, frozen = Counter[str](), Counter[str]()
    for name, parameter in model.named_parameters():
        part = next((title for prefix, title in PARTS.items() if name.startswith(prefix)), "other parts")
        if parameter.requires_grad:
            trained[part] += parameter.numel()
        elif part in ("encoder", "language adapters"):  # leave out parameters that a method has but never uses
            frozen[part] += parameter.numel()
    return Sizes(dict(trained), dict(frozen))
