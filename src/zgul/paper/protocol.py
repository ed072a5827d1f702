"""The protocol of the experiments. The defaults are the paper's, as far as it states them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zgul.errors import ZgulError
from zgul.languages import GROUPS
from zgul.options import Options, option
from zgul.training.config import PRECISIONS
from zgul.training.em_tuning import Grid

WHAT, SMALLER, FEW, TEXT = "What to run", "Training", "Few-shot", "Unlabelled text"
EM_HELP = "Choose EM settings on the dev set of the most related source, or on that source left out (loso)."
WHOLE_ENCODER = ("sft-en", "sft-m", "cpg")  # methods that train the whole encoder need smaller rates
# Learning rates that are tried. The paper's are for mBERT; the embedded encoder is smaller and needs larger ones.
EMBEDDED_GRID = {True: (5e-5, 1e-4, 2e-4, 4e-4), False: (2e-4, 5e-4, 1e-3, 2e-3)}
HUB_GRID = {True: (2e-5, 3e-5, 5e-5), False: (5e-5, 1e-4)}
# Rates without tuning: those of a first probe of the embedded encoder, and the paper's largest.
EMBEDDED_RATES, HUB_RATES = {True: 2e-4, False: 5e-4}, {True: 5e-5, False: 1e-4}
# Rates are tuned in one group for each task: the smaller one, if there is data for it.
TUNING_GROUPS = (("slavic", "germanic"), ("african", "indo-aryan"))


@dataclass(frozen=True)
class Protocol(Options):
    """What can be changed in the experiments."""

    seeds: tuple[int, ...] = option((0, 1, 2), "Random seeds, with commas.", panel=WHAT)
    groups: tuple[str, ...] = option(tuple(GROUPS), "Language groups, with commas.", panel=WHAT)
    tune: bool = option(True, "Choose rate and reduction of each method on the source dev sets first.", panel=WHAT)
    limit: int = option(0, "Training sentences of each source [default: all].", least=0, panel=SMALLER)
    dev_limit: int = option(0, "Dev sentences of each source [default: all].", least=0, panel=SMALLER)
    test_limit: int = option(0, "Test sentences of each target [default: all].", least=0, panel=SMALLER)
    epochs: int = option(0, "Epochs [default: 5 for POS, 10 for NER].", least=0, panel=SMALLER)
    lr: float = option(0.0, "Learning rate of all methods [default: tuned].", least=0, panel=SMALLER)
    batch_size: int = option(32, "Sentences in a batch.", least=1, panel=SMALLER)
    accumulate: int = option(4, "Batches in a step.", least=1, panel=SMALLER)
    em_by: str = option("source", EM_HELP, choices=("source", "loso"), panel=SMALLER)
    em_sentences: int = option(300, "Dev sentences that EM settings are chosen on.", least=0, panel=SMALLER)
    em_steps: tuple[int, ...] = option(Grid().steps, "EM steps to try, beside none.", panel=SMALLER)
    em_rates: tuple[float, ...] = option(Grid().rates, "EM learning rates to try.", panel=SMALLER)
    precision: str = option("auto", "auto: bfloat16 on a GPU, float32 on a CPU.", choices=PRECISIONS, panel=SMALLER)
    examples: tuple[int, ...] = option((0, 10, 30, 70, 100), "Numbers of examples.", panel=FEW)
    few_epochs: int = option(10, "Epochs on the examples.", least=1, panel=FEW)
    few_batch: int = option(8, "Sentences in a batch.", least=1, panel=FEW)
    few_lr: float = option(0.0, "Learning rate [default: the method's own].", least=0, panel=FEW)
    shares: tuple[float, ...] = option((0.25, 0.5, 1.0), "Shares of the text.", panel=TEXT)
    text_languages: tuple[str, ...] = option((), "Targets whose text is read [default: all with text].", panel=TEXT)
    text_lines: int = option(0, "Lines of text of each target [default: all].", least=0, panel=TEXT)
    text_steps: int = option(2000, "Masked-LM steps: of the head, of the adapter, of the encoder.", least=1, panel=TEXT)
    text_blocks: int = option(16, "Blocks of 128 pieces in such a step.", least=1, panel=TEXT)
    text_lr: float = option(1e-3, "Learning rate of head and adapter on text.", above=0, panel=TEXT)
    encoder_lr: float = option(5e-5, "Learning rate of the encoder on text.", above=0, panel=TEXT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if unknown := [group for group in self.groups if group not in GROUPS]:
            raise ZgulError(f"There is no group {unknown[0]!r}. There are: {', '.join(GROUPS)}.")
        if not self.seeds:
            raise ZgulError("Give at least one seed.")
        if any(share <= 0 or share > 1 for share in self.shares):
            raise ZgulError("Shares of the text lie between 0 and 1. 0 itself is the zero-shot model.")

    @property
    def tunes(self) -> bool:
        return self.tune and not self.lr

    def rate(self, method: str, encoder: str) -> float:
        """The learning rate of a method on an encoder where none was tuned."""
        rates = EMBEDDED_RATES if is_embedded(encoder) else HUB_RATES
        return self.lr or rates[method in WHOLE_ENCODER]


def rate_grid(method: str, encoder: str) -> tuple[float, ...]:
    """The learning rates that are tried for a method."""
    return (EMBEDDED_GRID if is_embedded(encoder) else HUB_GRID)[method in WHOLE_ENCODER]


def is_embedded(encoder: str) -> bool:
    """The embedded encoder, or a copy of it without the pieces that the data never uses."""
    return encoder == "embedded" or encoder.endswith(".q4.safetensors")


def chosen_protocol(given: Mapping[str, object], quick: bool = False) -> Protocol:
    """The protocol with some options changed; ``quick`` is all methods on little data (``quick.toml``)."""
    base = tomllib.loads(Path(__file__).with_name("quick.toml").read_text(encoding="utf-8")) if quick else {}
    return Protocol.from_dict({**base, **given})
