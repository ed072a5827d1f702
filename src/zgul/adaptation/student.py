"""The student: a tagger of which only small parts are trained, so that what changes fits into a small file.

Trained are new low-rank updates of the encoder, the task adapters, the head and, if there is raw text, the language's
own adapter, which joins the bank as a copy of its nearest source's. Everything else is frozen. While there is text, a
masked-LM head reads the same hidden states: ``logits = E LN(gelu(W h)) + b``, with E the embeddings of the pieces that
occur in the text. It is thrown away at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zgul.adapters.bank import Bank
from zgul.corpora.sentence import Sentence
from zgul.devices import mixed_precision, moved_copy, uses_bfloat16
from zgul.encoders.batches import Batch, EncodedCorpus, PieceEncoder
from zgul.encoders.encoder import LowRankLinear
from zgul.ensemble.weighting import ZGULWeighting
from zgul.errors import ZgulError
from zgul.methods.model import Model
from zgul.tagger import Tagger
from zgul.tagging.delta import ADAPTER, UPDATE, add_to_bank
from zgul.training.masked_lm import MLMHead

BATCH_TOKENS = (1024, 16384)  # that are read at once without gradients, on a CPU and on a GPU
MAX_PIECES = 128  # longer sentences are cut into chunks
MASKED = 0.15


@dataclass
class Masked:
    """A batch with masked pieces."""

    batch: Batch
    places: Tensor  # [B, T] bool
    truth: Tensor  # [k]: rows of the masked-LM head's own vocabulary


class Student(nn.Module):
    """The model in training. ``model`` gives hidden states; ``head`` turns them into label scores.

    With rank 0 and no adapter it is the tagger as it is: a teacher.
    """

    def __init__(self, tagger: Tagger, language: str, *, rank: int, adapter: bool, seed: int = 0) -> None:
        super().__init__()
        self.tagger, self.language, self.like = tagger, language, ""
        model = moved_copy(tagger.model, tagger.device)
        torch.manual_seed(seed)  # only now: a prepared tagger loads its model when it is asked for, and draws numbers
        model.encoder = model.encoder.merged()
        if adapter and language not in tagger.bank_languages and isinstance(model.weighting, ZGULWeighting):
            self.like = tagger.parts.most_related(language)
            add_to_bank(model, tagger, language, self.like)
        self.base = {name: value.detach() for name, value in model.named_parameters()}
        model.requires_grad_(False)
        if rank:
            model.encoder.add_low_rank(rank)
        for part in (model.task, model.head):
            part.requires_grad_(True)
            for value in part.parameters():
                value.data = value.data.clone()  # the tagger's own weights must stay
        if self.like and model.bank is not None:
            _train_last_adapter(model.bank)
        self.head = model.head
        self.masked_head: MLMHead | None = None
        self.precision = "float32"
        model.head = nn.Identity()  # type: ignore[assignment]
        self.model: Model = model
        pieces = tagger.pieces
        most = min(MAX_PIECES, tagger.parts.encoder.max_pieces)
        self.pieces = PieceEncoder(pieces.tokenizer, most, related_letters=pieces.related_letters, max_types=300_000)
        self.specials = torch.tensor([pieces.tokenizer.begin, pieces.tokenizer.end, pieces.tokenizer.pad])

    @property
    def device(self) -> torch.device:
        return self.tagger.device

    def use(self, precision: str) -> None:
        """Compute in this precision. In bfloat16 frozen matrices are rounded once, not again in each step."""
        self.precision = precision
        if uses_bfloat16(self.device, precision):
            for name, part in self.model.named_modules():
                if isinstance(part, nn.Linear) and name.startswith(("encoder.layers.", "weighting.")):
                    part.bfloat16()

    def add_masked_head(self, corpus: EncodedCorpus) -> None:
        """Add a masked-LM head over the pieces of a text."""
        mask = self.pieces.tokenizer.mask
        if mask is None:
            raise ZgulError("The tokenizer of this encoder has no mask piece. Adapt with --masked 0.")
        self.mask_id, self.vocabulary = mask, torch.unique(corpus.pieces.cpu().long())
        self.rows = torch.zeros(int(self.vocabulary.max()) + 1, dtype=torch.long)
        self.rows[self.vocabulary] = torch.arange(len(self.vocabulary))
        self.embeddings = self.model.encoder.words.weight[self.vocabulary.to(self.device)].detach().float()
        self.masked_head = MLMHead(self.model.encoder.width, len(self.vocabulary)).to(self.device)

    def encode(self, sentences: Sequence[Sentence], words: Sequence[Sequence[str]] | None = None) -> EncodedCorpus:
        """Encode sentences. The label of a word is its number in the corpus, so that targets can be looked up."""
        codes = list(dict.fromkeys(sentence.language or self.language for sentence in sentences)) or [self.language]
        table, strip = self.tagger.language_table(codes), self.tagger.strip_marks
        corpus = self.pieces.encode(sentences, languages=table, words=words, strip_marks=strip)
        corpus.labels[corpus.first] = torch.arange(int(corpus.first.sum()))
        return corpus.to(self.device)

    def mask(self, batch: Batch, share: float = MASKED, draws: torch.Generator | None = None) -> Masked:
        """Mask some of the pieces: 80% become the mask, 10% another piece of the text, 10% stay."""
        of: dict[str, Any] = {"device": batch.input_ids.device, "generator": draws}
        ids = batch.input_ids
        open_places = batch.mask & ~torch.isin(ids, self.specials.to(ids.device))
        open_places &= ids < len(self.rows)
        places = open_places & (torch.rand(ids.shape, **of) < share)
        truth = self.rows.to(ids.device)[ids[places]]
        draw = torch.rand(truth.shape, **of)
        other = self.vocabulary.to(ids.device)[torch.randint(len(self.vocabulary), truth.shape, **of)]
        shown = ids.clone()
        shown[places] = torch.where(draw < 0.8, self.mask_id, torch.where(draw < 0.9, other, ids[places]))
        parts = vars(batch) | {"input_ids": shown}
        return Masked(Batch(**parts), places, truth)

    def guess(self, hidden: Tensor) -> Tensor:
        """Scores [k, V] of the text's pieces for hidden states [k, d]."""
        assert self.masked_head is not None
        return self.masked_head.decode(self.masked_head.transform(hidden), self.embeddings)

    @torch.no_grad()
    def masked_accuracy(self, corpus: EncodedCorpus) -> float:
        """Masked accuracy in percent, with the same masks each time."""
        state = torch.get_rng_state()
        torch.manual_seed(0)
        self.eval()
        right = total = 0
        for batch in corpus.batches(BATCH_TOKENS[self.device.type != "cpu"], alike=0.9):
            masked = self.mask(batch)
            with mixed_precision(self.device, self.precision):
                scores = self.guess(self.model(masked.batch)[masked.places])
            right += int((scores.argmax(dim=-1) == masked.truth).sum())
            total += len(masked.truth)
        torch.set_rng_state(state)
        return 100 * right / max(total, 1)

    @torch.no_grad()
    def probabilities(self, sentences: Sequence[Sentence], words: Sequence[Sequence[str]] | None = None) -> Tensor:
        """Label probabilities [words, C] of sentences, on the CPU. No EM."""
        self.eval()
        corpus = self.encode(sentences, words)
        result = torch.zeros(len(corpus.pieces), len(self.tagger.labels), device=self.device)
        for batch in corpus.batches(BATCH_TOKENS[self.device.type != "cpu"], alike=0.9):
            with mixed_precision(self.device, self.precision):
                logits = self.head(self.model(batch))
            corpus.scatter(result, batch, logits.float().softmax(dim=-1))
        return corpus.by_word(result)

    def trained(self) -> dict[str, Tensor]:
        """A copy of the trained weights. Those of the masked-LM head are left out."""
        named = ((name, value) for name, value in self.named_parameters() if value.requires_grad)
        return {name: value.detach().clone() for name, value in named if not name.startswith("masked_head.")}

    @torch.no_grad()
    def restore(self, weights: dict[str, Tensor]) -> None:
        for name, value in weights.items():
            self.get_parameter(name).copy_(value)

    @torch.no_grad()
    def changes(self) -> dict[str, Tensor]:
        """What changed, as `zgul.tagging.delta` stores it."""
        tensors: dict[str, Tensor] = {}
        for index, layer in enumerate(self.model.encoder.layers):
            for name, matrix in layer.named_children():
                if isinstance(matrix, LowRankLinear) and matrix.b.any():
                    tensors |= {f"{UPDATE}.{index}.{name}.{part}": getattr(matrix, part) for part in "ab"}
        for name, value in [*self.model.task.named_parameters("task"), *self.head.named_parameters("head")]:
            tensors[name] = value - self.base[name]
        if self.like and self.model.bank is not None:
            own, like = self.model.bank.extract(self.language), self.model.bank.extract(self.like)
            for index, (layer, before) in enumerate(zip(own.layers, like.layers, strict=True)):
                for (name, value), other in zip(layer.named_parameters(), before.parameters(), strict=True):
                    tensors[f"{ADAPTER}.{index}.{name}"] = value - other
        return {name: value.detach().cpu().clone() for name, value in tensors.items()}


def _train_last_adapter(bank: Bank) -> None:
    """Train only the adapter that was added last. The others are in the same tensors and get no gradient."""
    for name in ("down", "down_bias", "up", "up_bias"):
        value: nn.Parameter = getattr(bank, name)
        value.data = value.data.clone()
        last = torch.zeros(value.shape[1], device=value.device)
        last[-1] = 1.0
        mask = last.view(1, -1, *[1] * (value.dim() - 2))
        value.requires_grad_(True).register_hook(lambda gradient, mask=mask: gradient * mask)


def soft_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed cross-entropy of label scores [k, C] against probabilities [k, C]. Words without a target add nothing."""
    return -(targets * F.log_softmax(logits.float(), dim=-1)).sum(dim=-1).sum()


def one_hot(sentences: Sequence[Sentence], labels: Sequence[str]) -> Tensor:
    """The targets [words, C] of labelled sentences. A tag that the tagger does not know leaves its row empty."""
    index = {label: row for row, label in enumerate(labels)}
    tags = [tag for sentence in sentences for tag in sentence.tags or ()]
    targets = np.zeros((len(tags), len(labels)), np.float32)
    for row, tag in enumerate(tags):
        if tag in index:
            targets[row, index[tag]] = 1.0
    return torch.from_numpy(targets)
