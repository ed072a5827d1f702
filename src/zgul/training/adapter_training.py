"""Train a language adapter from raw text, or train the encoder further on the text (the paper's mBERT^tgt).

The text is cut into blocks; every 40th line is held out. A masked-LM head comes from a file, or is trained first on the
same text with the unchanged encoder. Then the adapter (or, with ``full``, the encoder and the head) is trained with
this head. Masked accuracy and perplexity on the held-out blocks show the gain.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zgul import encoders
from zgul.adapters.adapterhub import write_adapter
from zgul.adapters.bank import Bank
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import adapters_in, save_adapters
from zgul.corpora.lines import Lines
from zgul.devices import find_device
from zgul.encoders.batches import PieceEncoder
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError
from zgul.languages import find
from zgul.options import option
from zgul.progress import Report, Status, silent
from zgul.tensors import load_with_metadata, save_tensors
from zgul.training import distributed
from zgul.training.checkpoint import RunningCheckpoint
from zgul.training.masked_lm import MaskedLM, MLMConfig, MLMHead, masked_scores, pack_text, train_masked_lm
from zgul.training.trainer import deferred_interrupt

HELD_OUT = 40  # every 40th line is held out
HEAD = "head.safetensors"
HEAD_STAGE, ENCODER_STAGE = "masked-LM head", "encoder"
FULL_LR = 5e-5


@dataclass(frozen=True)
class AdapterConfig(MLMConfig):
    """How a language adapter is trained. The shape is MAD-X's by default."""

    lr: float = option(0.0, "Learning rate [default: 1e-3; 5e-5 with --full].", least=0)
    size: int = option(0, "Bottleneck of the adapter [default: half the encoder's width].", least=0)
    activation: str = option("relu", "Activation of the adapter.", choices=("relu", "gelu", "gelu_new"))
    invertible: bool = option(False, "Add MAD-X's invertible block after the embeddings.")
    full: bool = option(False, "Train the whole encoder on the text instead of an adapter.")
    block: int = option(128, "Pieces in a block.", least=8)
    head_steps: int = option(0, "Steps for a new masked-LM head [default: as many as --steps].", least=0)

    @property
    def rate(self) -> float:
        return self.lr or (FULL_LR if self.full else MLMConfig.lr)


@dataclass
class Blocks:
    """Text as blocks of pieces."""

    train: Tensor  # [n, length]
    held_out: Tensor
    lines: int


@dataclass
class TrainedAdapter:
    """The result. ``scores`` has masked accuracy in percent and perplexity on held-out text, by adapter."""

    adapter: LanguageAdapter | None  # None with ``full``: the encoder itself was trained
    head: MLMHead
    scores: dict[str, tuple[float, float]]


def split_text(lines: Iterable[str], pieces: PieceEncoder, length: int) -> Blocks:
    """Cut text into blocks, with every 40th line held out. Held-out lines that also occur in the rest are dropped."""
    kept = [line for line in lines if line.strip()]
    train = [line for number, line in enumerate(kept, start=1) if number % HELD_OUT]
    known = set(train)
    held = [line for line in kept[HELD_OUT - 1 :: HELD_OUT] if line not in known]
    blocks = Blocks(pack_text(pieces, train, length), pack_text(pieces, held, length), len(train) + len(held))
    if not len(blocks.train) or not len(blocks.held_out):
        there = f"{len(train)} lines to train on and {len(held)} held out do not fill a block of {length} pieces each"
        raise ZgulError(f"There is too little text: {there}. Give more text, or smaller blocks with --block.")
    return blocks


def train_adapter(
    language: str,
    blocks: Blocks,
    encoder: Encoder,
    pieces: PieceEncoder,
    config: AdapterConfig,
    *,
    head: MLMHead | None = None,
    others: Sequence[LanguageAdapter] = (),
    report: Report = silent,
    checkpoint: RunningCheckpoint | None = None,
    keep_head: Callable[[MLMHead], None] = lambda head: None,
) -> TrainedAdapter:
    """Train an adapter (or the encoder) for a language. ``others`` are scored on the held-out text, to compare.

    ``keep_head`` receives a new head as soon as it is trained.
    """
    encoder.requires_grad_(False)
    config = replace(config, lr=config.rate)
    known, head = head, head or MLMHead(encoder.width, len(encoder.words.weight))
    head.to(encoder.words.weight.device)

    def masked_lm(bank: Bank | None) -> MaskedLM:
        return MaskedLM(encoder, head, bank, pieces, config.masked)

    train = partial(train_masked_lm, blocks=[blocks.train], report=report, checkpoint=checkpoint)
    if known is None:
        own = replace(config, steps=config.head_steps or config.steps, lr=MLMConfig.lr)
        train(masked_lm(None), config=own, stage=HEAD_STAGE)
        keep_head(head)
    head.requires_grad_(config.full)
    measured = {"before" if config.full else "none": masked_scores(masked_lm(None), blocks.held_out)}
    if config.full:
        encoder.requires_grad_(True)
        train(masked_lm(None), config=config, stage=ENCODER_STAGE)
        encoder.requires_grad_(False)
        return TrainedAdapter(None, head, measured | {"after": masked_scores(masked_lm(None), blocks.held_out)})
    form: dict[str, Any] = {"size": config.size, "activation": config.activation, "invertible": config.invertible}
    torch.manual_seed(config.seed)  # the same start, whether the head was trained just now or before
    adapter = LanguageAdapter.new(language, encoder.width, encoder.depth, **form)
    bank = _bank(adapter, encoder).requires_grad_(True)
    train(masked_lm(bank), config=config, stage=f"adapter {language}")
    for name, used in [*((other.language, _bank(other, encoder)) for other in others), (language, bank)]:
        measured[name] = masked_scores(masked_lm(used), blocks.held_out)
    return TrainedAdapter(bank.extract(language), head, measured)


def _bank(adapter: LanguageAdapter, encoder: Encoder) -> Bank:
    return Bank([adapter], width=encoder.width, depth=encoder.depth).to(encoder.words.weight.device)


def save_head(path: Path, head: MLMHead, encoder_name: str) -> None:
    save_tensors(path, head.state_dict(), metadata={"head": encoder_name})


def load_head(path: Path, encoder: Encoder) -> MLMHead:
    """Read a head written by `save_head`. A head that was made for another encoder is refused."""
    tensors, metadata = load_with_metadata(path)
    if "head" not in metadata:
        raise ZgulError(f"{path} holds no masked-LM head. Leave --head out to train a new one.")
    head = MLMHead(encoder.width, len(encoder.words.weight))
    try:
        head.load_state_dict(tensors)
    except RuntimeError as error:
        this = f"this one has width {encoder.width} and {len(encoder.words.weight)} pieces"
        made = f"{path} was made for another encoder ({metadata['head']}): {this}"
        raise ZgulError(f"{made}. Leave --head out to train a new one.") from error
    return head


def train_adapter_files(
    language: str,
    texts: Sequence[Path],
    output: Path,
    config: AdapterConfig | None = None,
    *,
    encoder: str = "embedded",
    head: Path | None = None,
    adapterhub: bool = False,
    overwrite: bool = False,
    resume: bool = False,
    device: str = "auto",
    report: Report = silent,
) -> TrainedAdapter:
    """Train a language's adapter on text files and save it in the folder ``output``, beside those of other languages.

    The masked-LM head is read from ``head`` or ``output/head.safetensors``, or trained and saved there. With
    ``adapterhub`` the adapter is also written in AdapterHub's form. With ``config.full`` the folder receives the
    encoder. Ctrl-C leaves checkpoints in the folder, and ``resume`` continues from them.
    """
    language, config = find(language).code, config or AdapterConfig()
    made = output / ("config.json" if config.full else f"{language}.safetensors")
    stages = (HEAD_STAGE, ENCODER_STAGE if config.full else f"adapter {language}")
    if config.full and (config.invertible or adapterhub or config.size):
        raise ZgulError("--full trains the encoder, not an adapter: leave out --invertible, --adapterhub and --size.")
    _check_files(texts, made, overwrite, resume)
    place = find_device(device)
    body, tokenizer = encoders.load(encoder)
    pieces = PieceEncoder(tokenizer, body.max_pieces)
    lines = _counted((line for path in texts for line in Lines(path)), report)
    blocks = split_text(lines, pieces, min(config.block, body.max_pieces))
    head_path = head or output / HEAD
    known = load_head(head_path, body) if head_path.is_file() else None
    others = [] if config.full or known is None else _others(output, language, body)
    body.to(place)
    output.mkdir(parents=True, exist_ok=True)
    with deferred_interrupt() as interrupt:
        checkpoint = RunningCheckpoint(output, _fingerprint(config, encoder, blocks), interrupt)
        _begin([checkpoint.path(stage) for stage in stages], overwrite, resume)
        more: dict[str, Any] = {"head": known, "others": others, "report": report, "checkpoint": checkpoint}
        if distributed.is_first():
            more["keep_head"] = partial(save_head, head_path, encoder_name=encoder)
        result = train_adapter(language, blocks, body, pieces, config, **more)
    if not distributed.is_first():
        return result
    if config.full:
        encoders.save(body, tokenizer, output)
        save_head(output / HEAD, result.head, encoder)  # it was trained with the encoder and belongs to it
    if result.adapter is not None:
        scores = {name: {"accuracy": a, "perplexity": p} for name, (a, p) in result.scores.items()}
        made_of = {"encoder": encoder, "lines": blocks.lines, "blocks": len(blocks.train)}
        result.adapter.about = {**made_of, "steps": config.steps, "seed": config.seed, "scores": scores}
        save_adapters(made, [result.adapter])
        if adapterhub:
            write_adapter(result.adapter, output / language, model_type=body.config.model_type, model_name=encoder)
    for path in map(checkpoint.path, stages):
        path.unlink(missing_ok=True)
    return result


def _check_files(texts: Sequence[Path], made: Path, overwrite: bool, resume: bool) -> None:
    """Refuse what cannot be read or would be lost, before anything is loaded: that takes seconds."""
    if made.exists() and not overwrite:
        raise ZgulError(f"{made} exists already. Choose another --output, or replace it with --overwrite.")
    if overwrite and resume:
        raise ZgulError("--resume continues what is there, and --overwrite replaces it. Give only one of them.")
    for path in texts:
        if not path.is_file():
            raise ZgulError(f"{path} is a folder; files are needed here" if path.is_dir() else f"{path}: no such file")


def _begin(checkpoints: Sequence[Path], overwrite: bool, resume: bool) -> None:
    """Refuse to lose an unfinished run, unless it is to be replaced."""
    begun = [path for path in checkpoints if path.is_file()]
    if begun and not (resume or overwrite):
        how = "Continue it with --resume, or replace it with --overwrite."
        raise ZgulError(f"{begun[0].parent} holds an unfinished run. {how}")
    distributed.wait()  # until all processes have looked
    if overwrite and distributed.is_first():
        for path in begun:
            path.unlink()
    distributed.wait()


def _counted(lines: Iterable[str], report: Report) -> Iterator[str]:
    """Report the lines while they are read."""
    for number, line in enumerate(lines):
        if number % 1000 == 0:
            report(Status("reading text", number, 0))
        yield line


def _fingerprint(config: AdapterConfig, encoder: str, blocks: Blocks) -> str:
    """A hash of what must stay the same to continue a checkpoint: the options, the encoder and the text."""
    digest = hashlib.sha256(json.dumps([config.to_dict(), encoder], sort_keys=True).encode())
    digest.update(blocks.train.numpy().tobytes())
    return digest.hexdigest()


def _others(folder: Path, language: str, encoder: Encoder) -> list[LanguageAdapter]:
    """The adapters of other languages in a folder that fit the encoder."""
    others = [other for other in adapters_in(folder) if other.language != language]
    return [other for other in others if (other.width, len(other.layers)) == (encoder.width, encoder.depth)]
