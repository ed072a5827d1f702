"""Small stand-ins for the shipped taggers, on a tiny random encoder, for tests of everything around them.

Their tags mean nothing, but they are the same every time and differ from word to word.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from family import Family, family, tiny_encoder
from zgul.adapters.language_adapter import Bottleneck, LanguageAdapter
from zgul.adapters.storage import load_adapters, save_adapters
from zgul.corpora.sentence import UPOS
from zgul.ensemble.em import EMConfig
from zgul.languages import GROUPS, SOURCES
from zgul.tagger import Tagger, save_tagger

WIDTH, DEPTH = 32, 2
ENTITIES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
POS_SOURCES = ("en", "is", "de", "ru", "cs")


def stand_in_taggers(folder: Path, names: tuple[str, ...] = ()) -> Path:
    """A folder such as the shipped one, with all taggers or those named."""
    model, tokenizer = tiny_encoder(words(), layers=DEPTH, width=WIDTH)
    save_adapters(folder / "adapters.safetensors", [random_adapter(code, n) for n, code in enumerate(SOURCES)], bits=8)
    bank = load_adapters(folder / "adapters.safetensors")  # as they are in 8 bits: taggers are for these
    made = {f"{group.name}-{group.task}": group.sources for group in GROUPS.values()}
    made |= {"all-pos": POS_SOURCES, "all-ner": tuple(code for code in SOURCES if code not in POS_SOURCES[1:])}
    for seed, (name, sources) in enumerate(made.items()):
        if names and name not in names:
            continue
        torch.manual_seed(seed)
        task = name.rpartition("-")[2]
        tagger = Tagger.new(
            "zgul",
            encoder=(model, tokenizer),
            task=task,
            labels=UPOS if task == "pos" else ENTITIES,
            sources=sources,
            adapters=[adapter for adapter in bank if adapter.language in sources],
        )
        with torch.no_grad():
            for parameter in tagger.model.parameters():
                if parameter.requires_grad:  # as built, weights are even and tags hardly depend on the word
                    parameter.add_(torch.randn_like(parameter) * 0.1)
            torch.nn.init.normal_(tagger.model.head.weight)
        tagger = replace(tagger, em={"": EMConfig(steps=2, lr=1.0)})
        save_tagger(tagger, folder / name, merged=True, bank=False, bits=8, encoder=True)
    return folder


def words() -> Family:
    """The made-up language whose words the stand-ins' encoder knows."""
    return family(seed=0)


def text(sentences: int, seed: int = 0) -> str:
    """Running text, a paragraph for each sentence: the encoder knows no capitals to begin one with."""
    lines = words().text("s0", sentences, seed)
    return "".join(line.replace(" .", ".").replace(" !", "!") + "\n\n" for line in lines)


def random_adapter(code: str, seed: int) -> LanguageAdapter:
    torch.manual_seed(1000 + seed)
    layers = [Bottleneck(WIDTH, 8) for _ in range(DEPTH)]
    for parameter in (p for layer in layers for p in layer.parameters()):
        torch.nn.init.normal_(parameter, std=0.5)
    return LanguageAdapter(code, layers)
