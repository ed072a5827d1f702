"""The options of a training run, from Python, a YAML file or the command line. They are saved with the model."""

from dataclasses import dataclass

from zgul.methods import METHODS, MethodOptions
from zgul.options import Options, option
from zgul.tagger.decoding import DECODINGS

WHAT, HOW, NOISE, EM = "What to train", "How to train", "Annotation and noise", "EM settings"
ADAPTERS = "Language adapters: shipped, new (untrained), files or folders separated by commas, or {lang}/wiki@ukp."
START = "A shipped or saved tagger to train further. Its method, bank and labels are kept."
TARGETS = "Unseen languages to choose EM settings for, separated by commas [default: the group's]."
SELECT = {
    "best": "those with the best dev F1",
    "last": "those of the end",
    "average": "the mean of those at the evaluations of the second half",
}
SELECT_HELP = "Which weights to keep: " + "; ".join(f"{name}, {which}" for name, which in SELECT.items()) + "."
PRECISIONS = ("auto", "float32", "bfloat16")
EM_BY = {  # whose dev sets EM settings are chosen on
    "source": "the dev set of the most related source",
    "loso": "the dev set of the most related source, with a tagger trained without it (leave one source out)",
    "target": "the target's own dev set if there is one (not zero-shot)",
}
EM_HELP = "Choose EM settings on " + "; ".join(f"{by}: {where}" for by, where in EM_BY.items()) + "."


@dataclass(frozen=True)
class NoiseConfig(Options):
    """Spelling noise. It is not in the paper, and off by default."""

    sentences: float = option(0.0, "Share of the sentences that get spelling noise.", least=0, most=1, panel=NOISE)
    words: float = option(0.3, "Share of the words of a noised sentence that are edited.", least=0, most=1, panel=NOISE)
    edits: int = option(1, "Largest number of edits in such a word.", least=1, panel=NOISE)
    ciphers: float = option(
        0.0, "Share of the sentences in which some letters are always replaced by others.", least=0, most=1, panel=NOISE
    )
    romanised: float = option(
        0.0, "Share of the sentences in other scripts that are written in Latin letters.", least=0, most=1, panel=NOISE
    )

    def __bool__(self) -> bool:
        """Whether there is any noise."""
        return bool(self.sentences or self.ciphers or self.romanised)


@dataclass(frozen=True)
class TrainingConfig(Options):
    """One training run. The defaults are the paper's."""

    method: str = option("zgul", "Method: see zgul methods.", choices=METHODS.keys(), panel=WHAT, metavar="NAME")
    group: str = option("", "Language group: germanic, slavic, african or indo-aryan.", panel=WHAT)
    task: str = option("pos", "Task [default: the group's, or pos].", choices=("pos", "ner"), panel=WHAT)
    sources: tuple[str, ...] = option((), "Source languages, separated by commas.", panel=WHAT)
    targets: tuple[str, ...] = option((), TARGETS, panel=WHAT)
    leave_out: tuple[str, ...] = option((), "Sources to leave out, separated by commas.", panel=WHAT)
    data: str = option("", "Data folder with TASK/LANG/train.tsv and dev.tsv.", panel=WHAT, metavar="DIR")
    encoder: str = option("embedded", "Encoder: embedded, a folder or a name on the Hugging Face hub.", panel=WHAT)
    adapters: str = option("shipped", ADAPTERS, panel=WHAT)
    start: str = option("", START, panel=WHAT, metavar="NAME|FOLDER")
    extra_adapters: tuple[str, ...] = option((), "Further languages for the bank, such as the target.", panel=WHAT)
    epochs: int = option(0, "Epochs [default: 5 for POS, 10 for NER].", least=0, panel=HOW)
    lr: float = option(1e-4, "Learning rate.", least=0, panel=HOW)
    language_lr: float = option(1.0, "Learning rate of lang2vec, as a share of the learning rate.", least=0, panel=HOW)
    batch_size: int = option(32, "Sentences in a batch.", least=1, panel=HOW)
    accumulate: int = option(4, "Batches in an optimiser step.", least=1, panel=HOW)
    warmup: float = option(0.1, "Share of the steps in which the learning rate rises.", least=0, most=1, panel=HOW)
    weight_decay: float = option(0.0, "Weight decay of AdamW.", least=0, panel=HOW)
    clip: float = option(1.0, "Largest norm of the gradient.", above=0, panel=HOW)
    seed: int = option(0, "Random seed: new parameters, dropout, order, noise.", least=0, below=2**32, panel=HOW)
    eval_every: int = option(0, "Steps between evaluations on the dev sets [default: an epoch].", least=0, panel=HOW)
    patience: int = option(0, "Stop after this many evaluations without a gain [default: never].", least=0, panel=HOW)
    select: str = option("best", SELECT_HELP, choices=tuple(SELECT), panel=HOW)
    max_pieces: int = option(128, "Cut sentences with more pieces into chunks.", least=3, panel=HOW)
    limit: int = option(
        0, "Sentences of each language, to train on and of its dev set [default: all].", least=0, panel=HOW
    )
    decode: str = option("words", "Each word's best label, or the best IOB2 sequence.", choices=DECODINGS, panel=HOW)
    related_letters: bool = option(False, "Read unknown letters as related ones that the encoder knows.", panel=HOW)
    precision: str = option("auto", "auto is bfloat16 on a GPU and float32 on a CPU.", choices=PRECISIONS, panel=HOW)
    device: str = option("auto", "Where to compute; mps is for Macs.", metavar="cpu|cuda|mps|auto", panel=HOW)
    tensorboard: bool = option(False, "Write a TensorBoard log to OUTPUT/tensorboard.", panel=HOW)
    unannotated: tuple[str, ...] = option((), "Labels that mean that a word has no label, such as X.", panel=NOISE)
    label_set_per_corpus: bool = option(False, "Treat labels that a corpus never uses as unknown.", panel=NOISE)
    noise: NoiseConfig = option(NoiseConfig(), "Spelling noise.")
    em_by: str = option("source", EM_HELP, choices=tuple(EM_BY), panel=EM)
    em_sentences: int = option(300, "Dev sentences to choose EM settings on; 0: choose none.", least=0, panel=EM)
    options: MethodOptions = option(MethodOptions(), "Choices inside the method.")

    @property
    def rounds(self) -> int:
        """Epochs, with the paper's default for the task."""
        return self.epochs or (5 if self.task == "pos" else 10)

    @property
    def kept_sources(self) -> list[str]:
        """The sources without those that are left out."""
        return [language for language in self.sources if language not in self.leave_out]
