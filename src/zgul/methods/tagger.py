"""A method in use: an encoder, a bank and what was trained, ready to predict, to be saved and to be loaded.

A saved tagger is a folder: ``config.json``, ``model.safetensors`` (what was trained), ``bank.safetensors`` (the
language adapters, unless they ship with the package) and, on request, ``encoder/``.
"""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zgul import __version__
from zgul.adapters.bank import LanguageAdapter
from zgul.adapters.bottleneck import Bottleneck
from zgul.adapters.storage import checksum, load_adapters, save_adapters
from zgul.corpora.encode import Batch, EncodedCorpus, PieceEncoder
from zgul.corpora.sentence import Sentence
from zgul.devices import find_device, out_of_memory
from zgul.encoders.encoder import Encoder
from zgul.encoders.packing import Packing
from zgul.ensemble.em import EMConfig, label_scores_after, minimise_entropy, uncertain
from zgul.ensemble.weighting import ZGUL, Folded, Weighting
from zgul.errors import ZgulError, ZgulWarning
from zgul.graphs import GraphedStep
from zgul.methods import Method, MethodOptions, Parts, method
from zgul.methods.decode import check_decoding, decoder
from zgul.methods.saved import FORMAT, check_config, settings
from zgul.precision import autocast, check_precision
from zgul.tensors import load_tensors, read_json, save_tensors, write_json

GIVEN = "given"  # the name of an encoder that came without one
GRAPHED_TOKENS, GRAPHS = 8192, 64  # the largest batch that is replayed as a graph on a GPU, and how many are kept
LAUNCH_BOUND = 8192 * 384  # numbers in a batch of hidden states: a GPU works on fewer faster than it is told to


@dataclass
class Prediction:
    """What a tagger says of one sentence."""

    tags: list[str]
    probabilities: NDArray[np.float32]  # [words] of the chosen tag
    weights: NDArray[np.float32] | None = None  # [words, K, N] of each view and adapter, mean over the layers
    weights_before: NDArray[np.float32] | None = None  # the same before EM


class _Found(NamedTuple):
    """What the model makes of a batch."""

    logits: Tensor  # [B, T, C] label scores
    before: Tensor | None = None  # [L, B, T, K, N] weights before EM, where they were asked for, and after it
    after: Tensor | None = None
    left: Tensor | None = None  # [B'] sentences that are to be done again, together with others


@dataclass
class _Captured:
    """The model as graphs, without EM and with it, and what it was when they were captured."""

    key: tuple[str, int]  # the precision, and where its first weights are
    held: list[Any]  # what else it rests on
    step: GraphedStep

    def good_for(self, key: tuple[str, int], held: list[Any]) -> bool:
        return self.key == key and len(held) == len(self.held) and all(map(operator.is_, held, self.held))


@dataclass
class Tagger:
    """A trained method."""

    method: Method
    parts: Parts
    tokenizer: Any
    task: str
    encoder_name: str
    strategy: str = ""
    em: dict[str, EMConfig] = field(default_factory=dict)  # by target language; "" is the default
    about: dict[str, Any] = field(default_factory=dict)  # how it was made
    precision: str = "float32"  # in which it predicts; autocast's own work costs more than bf16 saves here
    decode: str = "words"  # each word's best label, as in the paper, or the best "sequence" that IOB2 allows

    def __post_init__(self) -> None:
        self.strategy = self.method.check_strategy(self.strategy or self.method.strategies[0])
        self.model = self.method.build(self.parts)
        self.trained = [name for name, value in self.model.named_parameters() if value.requires_grad]
        self.pieces = PieceEncoder(self.tokenizer, self.parts.encoder.max_pieces)
        self._fitting: int | None = None  # tokens at once, where more did not fit into memory
        self._captured: _Captured | None = None

    @classmethod
    def new(
        cls,
        method_name: str,
        *,
        encoder: str | tuple[Any, Any],
        task: str,
        labels: Sequence[str],
        sources: Sequence[str],
        adapters: Sequence[LanguageAdapter] = (),
        options: MethodOptions | None = None,
        features: dict[str, NDArray[np.float32]] | None = None,
    ) -> Tagger:
        """An untrained tagger on an encoder given by name or as (model, tokenizer)."""
        chosen = method(method_name)
        if isinstance(encoder, str):
            from zgul import encoders

            name, (model, tokenizer) = encoder, encoders.load(encoder)
        else:
            name, (model, tokenizer) = GIVEN, encoder
        parts = Parts(
            Encoder(model),
            list(labels),
            list(sources),
            list(adapters) if chosen.needs_bank else [],
            options or MethodOptions(),
            features or {},
        )
        return cls(chosen, parts, tokenizer, task, name)

    @property
    def device(self) -> torch.device:
        return self.model.head.weight.device

    @property
    def labels(self) -> list[str]:
        return self.parts.labels

    def to(self, device: torch.device | str) -> Tagger:
        self.model.to(find_device(device))
        if self.parts.encoder.joined:
            self._arrange()
        self._fitting = self._captured = None
        return self

    def using(self, *, precision: str | None = None, decode: str | None = None) -> Tagger:
        """The same weights, used in another way. Shipped taggers are loaded once, for all who use them."""
        other = copy.copy(self)
        other.precision = check_precision(precision or self.precision, self.device)
        other.decode = check_decoding(decode or self.decode)
        return other

    def prepare(self, languages: Sequence[str], strategy: str | None = None) -> dict[str, int]:
        """Make the model ready for these languages; gives their rows."""
        strategy = self.method.check_strategy(strategy or self.strategy)
        return self.method.prepare(self.model, strategy, languages, self.parts)

    def em_for(self, language: str, strategy: str | None = None) -> EMConfig | None:
        """The EM settings for a language; None where the strategy has no EM."""
        strategy = strategy or self.strategy
        if not self.method.uses_em(strategy):
            return None
        config = self.em.get(language) or self.em.get("") or EMConfig()
        return replace(config, tied=True) if strategy in ("em-tied", "emea") else config

    def predict(
        self,
        sentences: Sequence[Sentence],
        *,
        strategy: str | None = None,
        em: EMConfig | None = None,
        max_tokens: int | None = None,
        weights: bool = False,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[Prediction]:
        """Tag sentences, whose ``language`` must be set. ``on_batch`` hears how many chunks were done.

        On a GPU not for several threads at once: graphs that are replayed write to one place.
        """
        strategy = self.method.check_strategy(strategy or self.strategy)
        if em is None and self.method.uses_em(strategy):
            return self._predict_by_settings(sentences, strategy, max_tokens, weights, on_batch)
        spoken = dict.fromkeys(code for sentence in sentences for code in _languages(sentence))
        if not spoken:  # not a word
            return [Prediction([], np.zeros(0, np.float32)) for _ in sentences]
        rows = self.prepare(list(spoken), strategy)
        encoded = self.pieces.encode(sentences, languages=rows).to(self.device)
        count = len(encoded.pieces)
        probabilities = torch.zeros(count, len(self.labels), device=self.device)
        seen: dict[str, Tensor] = {}
        if any(module.training for module in self.model.modules()):  # an encoder may be shared with one that learns
            self.model.eval()
        tokens, waiting = max_tokens or batch_tokens(self.device), []

        def take(batch: Batch, found: _Found) -> None:
            encoded.scatter(probabilities, batch, found.logits.float().softmax(dim=-1))
            for name, value in (("before", found.before), ("after", found.after)):
                if value is not None:
                    mean = value.mean(dim=0)  # [L, B, T, K, N] -> [B, T, K, N]
                    if name not in seen:
                        seen[name] = torch.zeros(count, *mean.shape[2:], device=self.device)
                    encoded.scatter(seen[name], batch, mean.expand(*batch.words.shape, *mean.shape[2:]))
            if on_batch is not None:
                on_batch(len(batch.rows) - (0 if found.left is None else len(found.left)))

        for batch, found in self._run_all(encoded.batches(tokens), em, weights):
            take(batch, found)
            if found.left is not None:
                waiting.append(batch.rows[found.left])
        if em is not None and waiting:  # a few sentences of each batch: now together
            em = replace(em, skip_below=0.0)
            for batch, found in self._run_all(encoded.batches(tokens, rows=torch.cat(waiting)), em, weights):
                take(batch, found)
        return self._predictions(encoded, probabilities, seen)

    def _predictions(self, encoded: EncodedCorpus, probabilities: Tensor, seen: dict[str, Tensor]) -> list[Prediction]:
        """Label probabilities [P, C], and weights before and after EM where they were seen, as tags by sentence."""
        p, sizes = encoded.by_word(probabilities).numpy(), encoded.sentence_sizes  # [words, C]
        tags = decoder(self.decode, self.labels)(p, sizes)
        chosen = p[np.arange(len(p)), tags]
        labels = self.labels
        names = [labels[tag] for tag in tags.tolist()]
        columns = {name: encoded.by_word(value).numpy() for name, value in seen.items()}
        mend = self.task == "ner" and self.decode == "words"
        results, start = [], 0
        for stop in np.cumsum(sizes).tolist():
            results.append(
                Prediction(
                    tags=valid_iob2(names[start:stop]) if mend else names[start:stop],
                    probabilities=chosen[start:stop],
                    weights=columns["after"][start:stop] if "after" in columns else None,
                    weights_before=columns["before"][start:stop] if "before" in columns else None,
                )
            )
            start = stop
        return results

    def _predict_by_settings(
        self,
        sentences: Sequence[Sentence],
        strategy: str,
        max_tokens: int | None,
        weights: bool,
        on_batch: Callable[[int], None] | None,
    ) -> list[Prediction]:
        """Predict with the EM settings stored for each sentence's language (a code-switched one's first)."""
        groups: dict[EMConfig, list[int]] = {}
        for index, sentence in enumerate(sentences):
            config = self.em_for(next(_languages(sentence), ""), strategy)
            assert config is not None
            groups.setdefault(config, []).append(index)
        found: dict[int, Prediction] = {}
        for config, indices in groups.items():
            group = [sentences[index] for index in indices]
            predictions = self.predict(
                group, strategy=strategy, em=config, max_tokens=max_tokens, weights=weights, on_batch=on_batch
            )
            found |= dict(zip(indices, predictions, strict=True))
        return [found[index] for index in range(len(sentences))]

    def _run_all(self, batches: Iterable[Batch], em: EMConfig | None, weights: bool) -> Iterator[tuple[Batch, _Found]]:
        """Run one batch after the other; where memory runs out, this one and all that follow in smaller parts."""
        for whole in batches:
            waiting = [whole]
            while waiting:
                batch = waiting.pop()
                count, tokens = len(batch.rows), batch.input_ids.numel()
                if self._fitting is not None and tokens > self._fitting and count > 1:
                    waiting += [_rows(batch, count // 2, count), _rows(batch, 0, count // 2)]
                    continue
                try:
                    found = self._run(batch, em, weights)
                except (RuntimeError, MemoryError) as error:
                    if not out_of_memory(error):
                        raise
                    if count == 1:
                        raise ZgulError(
                            f"out of memory even with one sentence of {tokens} pieces alone; cut it into shorter ones"
                            + (", tag without EM (--no-em)" if em is not None and em.steps else "")
                            + " or use a device with more memory (--device cpu)"
                        ) from error
                    self._fitting = tokens // 2
                else:
                    yield batch, found
                    continue
                # only here has the error let go of what it held
                warnings.warn(
                    f"out of memory: going on with {self._fitting} tokens at a time", ZgulWarning, stacklevel=3
                )
                waiting.append(batch)

    def _run(self, batch: Batch, em: EMConfig | None, weights: bool) -> _Found:
        if self.model.bank is None or ((em is None or em.steps == 0) and not weights):
            return _Found(self.label_scores(batch))
        config = em or EMConfig(steps=0)
        if not weights and self._replays(batch, config):
            if config.adaptive:
                logits = self.label_scores(batch)
                return _Found(logits, left=uncertain(logits, batch, config))
            return _Found(self._replayed(batch, config))
        with autocast(self.device, self.precision):
            result = minimise_entropy(self.model, batch, config, weights=weights, leave_few=True)
        return _Found(result.logits, result.before, result.after, result.left)

    @torch.no_grad()
    def label_scores(self, batch: Batch) -> Tensor:
        """Label scores [B, T, C] of a batch without EM.

        Small batches on a GPU are bound by the launches of kernels: a shape that comes again is replayed as a graph.
        """
        if batch.input_ids.is_cuda and batch.input_ids.numel() <= GRAPHED_TOKENS:
            return self._replayed(batch, None)
        with autocast(batch.input_ids.device, self.precision):
            return self.model(batch, packing=Packing(batch.mask, batch.words))  # type: ignore[no-any-return]

    def _replays(self, batch: Batch, em: EMConfig) -> bool:
        """Whether EM on this batch is a fixed sequence of kernels (but for who needs it), and launching them dear."""
        fixed = em.positions == "words" and em.patience == 0 and not em.recompute
        if not fixed or not batch.input_ids.is_cuda:
            return False
        rows, length = self._shape(batch)
        tokens = rows * length
        return tokens * self.parts.encoder.width <= LAUNCH_BOUND and tokens <= batch_tokens(batch.rows.device) // 8

    @torch.no_grad()
    def _replayed(self, batch: Batch, em: EMConfig | None) -> Tensor:
        """Label scores [B, T, C] after EM (None: without) by a graph."""
        held, key = self._held(), (self.precision, next(self.model.parameters()).data_ptr())
        captured = self._captured
        if captured is None or not captured.good_for(key, held):
            captured = self._captured = _Captured(key, held, GraphedStep(self._scores, most=GRAPHS))
        rows, length = batch.input_ids.shape
        shaped = batch.padded(*self._shape(batch), self.parts.encoder.pad)
        with autocast(batch.rows.device, self.precision):
            scores = captured.step(em, **vars(shaped))
        return scores[:rows, :length].clone()  # the next replay writes to the same place

    def _scores(self, em: EMConfig | None, **parts: Tensor) -> Tensor:
        if em is not None:
            return label_scores_after(self.model, Batch(**parts), em)
        return self.model(Batch(**parts))  # type: ignore[no-any-return]

    def _shape(self, batch: Batch) -> tuple[int, int]:
        """The shape that a batch is given so that few graphs do for many batches, unless that makes it large."""
        rows, length = batch.input_ids.shape
        longer = max(length, min(8 * _one_of_few(-(-length // 8)), self.parts.encoder.max_pieces))
        few = _one_of_few(rows), longer
        return few if few[0] * few[1] * self.parts.encoder.width <= LAUNCH_BOUND else (rows, length)

    def _held(self) -> list[Any]:
        """What may be another one when the tagger is prepared for other languages, extended or folded.

        A graph reads the tensors it was captured with: it is good for as long as they are the model's.
        """
        parts = [part for part in (self.model.weighting, self.model.generator, self.model.bank) if part is not None]
        tensors = chain.from_iterable((*part.parameters(), *part.buffers()) for part in parts)
        return [self.parts.encoder.joined, *parts, *tensors]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_captured": None}  # a graph is for one tagger, and cannot be copied

    def fold(self) -> Tagger:
        """Multiply out what can be for inference: the same tags with fewer products. Ends training."""
        self._captured = None
        self.parts.encoder.merge_low_rank()
        weighting = self.model.weighting
        if isinstance(weighting, ZGUL) and weighting.foldable:
            weighting = self.model.weighting = Folded(weighting)
        if isinstance(weighting, Folded):
            assert self.model.bank is not None
            weighting.multiply(self.model.bank)
        self._arrange()
        self.model.requires_grad_(False).eval()
        return self

    def _arrange(self) -> None:
        """Give the matrices the order in memory that is best where they are."""
        self.parts.encoder.join()
        if self.model.bank is not None:
            self.model.bank.arrange()
        for task in self.model.task:
            assert isinstance(task, Bottleneck)
            task.arrange()

    # --- saving and loading

    def save_pretrained(
        self, folder: Path | str, *, bits: int = 32, folded: bool = False, bank: bool = True, encoder: bool = False
    ) -> None:
        """Save as a folder; without ``bank`` the package's own language adapters are taken when loading.

        They must be the same then: what is saved without its bank has a checksum of it.
        """
        folder = Path(folder)
        weighting = self.model.weighting
        if folded and isinstance(weighting, ZGUL) and weighting.foldable:
            weighting = Folded(weighting)
        folded = isinstance(weighting, Folded)
        state = self._state(weighting)
        folder.mkdir(parents=True, exist_ok=True)
        save_tensors(folder / "model.safetensors", state, bits=bits)
        if bank and self.model.bank is not None:
            save_adapters(folder / "bank.safetensors", self._adapters())
        if encoder:
            self.parts.encoder.model.save_pretrained(folder / "encoder")
            self.tokenizer.save_pretrained(folder / "encoder")
        write_json(folder / "config.json", self._config(folded, bank, encoder))

    def _state(self, weighting: Weighting | None) -> dict[str, Tensor]:
        """What was trained, by name; of a folded weighting, all it consists of."""
        own = dict(self.model.named_parameters())
        if lost := [name for name in self.trained if name not in own and not name.startswith("weighting.")]:
            raise ZgulError(f"fold() has merged {lost[0]} away; save the tagger before folding it")
        if not isinstance(weighting, Folded):
            return {name: own[name] for name in self.trained}
        state: dict[str, Tensor] = {name: own[name] for name in self.trained if not name.startswith("weighting.")}
        return state | {f"weighting.{name}": value for name, value in weighting.named_parameters()}

    def _adapters(self) -> list[LanguageAdapter]:
        """The bank's adapters as they are now."""
        bank = self.model.bank
        return [bank.extract(language) for language in bank.languages] if bank is not None else []

    def _config(self, folded: bool, bank: bool, encoder: bool) -> dict[str, Any]:
        shipped = self.model.bank is not None and not bank
        return {
            "format": FORMAT,
            "zgul": __version__,
            "task": self.task,
            "method": self.method.name,
            "strategy": self.strategy,
            "decode": self.decode,
            "kin_letters": self.pieces.kin_letters,
            "sources": self.parts.sources,
            "labels": self.labels,
            "options": asdict(self.parts.options),
            "encoder": {
                "name": "encoder" if encoder else self.encoder_name,
                "width": self.parts.encoder.width,
                "depth": self.parts.encoder.depth,
            },
            "bank": ("inside" if bank else "shipped") if self.model.bank is not None else "none",
            **({"bank_checksum": checksum(self._adapters())} if shipped else {}),
            "folded": folded,
            "em": {language: asdict(config) for language, config in self.em.items()},
            "features": {code: np.asarray(value).tolist() for code, value in self.parts.features.items()},
            "about": self.about,
        }

    @classmethod
    def from_pretrained(
        cls, folder: Path | str, *, encoder: tuple[Any, Any] | str | None = None, device: str | torch.device = "cpu"
    ) -> Tagger:
        """Load a folder written by ``save_pretrained``; ``encoder`` replaces the one the folder names."""
        folder = Path(folder)
        if not folder.is_dir():
            raise ZgulError(f"{folder}: no such folder; a tagger is a folder with config.json and model.safetensors")
        config: dict[str, Any] = read_json(folder / "config.json")
        check_config(config, folder)
        info = config["encoder"]
        name: str = info["name"]
        if encoder is None and name == GIVEN:
            raise ZgulError(
                f"{folder} was saved without the encoder it was made with, which has no name; give the encoder "
                "(Tagger.from_pretrained(..., encoder=(model, tokenizer))), or save the tagger with encoder=True"
            )
        if encoder is None or isinstance(encoder, str):
            from zgul import encoders

            name = encoder or name
            encoder = encoders.load(str(folder / "encoder") if name == "encoder" else name)
        if name == "encoder":  # it is in this folder alone
            name = GIVEN
        body = Encoder(encoder[0])
        if (body.width, body.depth) != (info["width"], info["depth"]):
            raise ZgulError(
                f"{folder} was trained on an encoder of {info['depth']} layers of width {info['width']}; "
                f"the one given has {body.depth} of width {body.width}"
            )
        parts = Parts(
            body,
            list(config["labels"]),
            list(config["sources"]),
            _load_bank(folder, config),
            settings(MethodOptions, config["options"], "options", folder),
            {code: np.array(value, np.float32) for code, value in config["features"].items()},
        )
        tagger = cls(
            *(method(str(config["method"])), parts, encoder[1], str(config["task"]), name, str(config["strategy"])),
            decode=check_decoding(str(config.get("decode", "words"))),
        )
        tagger.pieces.kin_letters = bool(config.get("kin_letters", False))
        tagger.em = {code: settings(EMConfig, value, f"em.{code}", folder) for code, value in config["em"].items()}
        tagger.about = dict(config["about"])
        if config["folded"] and isinstance(tagger.model.weighting, ZGUL):
            tagger.model.weighting = Folded(tagger.model.weighting)
        tagger._load_state(load_tensors(folder / "model.safetensors"), folder)
        if config["folded"]:
            tagger.fold()
        return tagger.to(device)

    @torch.no_grad()
    def _load_state(self, state: dict[str, Tensor], folder: Path) -> None:
        own = dict(self.model.named_parameters())
        expected = {name for name, value in own.items() if value.requires_grad}
        missing, extra = expected - set(state), set(state) - set(own)
        if missing or extra:
            named = ", ".join(sorted(missing | extra)[:3])
            raise ZgulError(
                f"{folder}/model.safetensors does not fit its config.json: {len(missing)} tensors missing, "
                f"{len(extra)} unknown ({named}, …). Save the tagger again, or use the zgul version it was made with."
            )
        if len(state["head.bias"]) != len(self.labels):
            raise ZgulError(
                f"{folder}: config.json names {len(self.labels)} labels, but its weights were trained for "
                f"{len(state['head.bias'])}; the two files do not belong together"
            )
        for name, value in state.items():
            if own[name].shape != value.shape:
                raise ZgulError(
                    f"{folder}/model.safetensors: {name} has shape {list(value.shape)}, "
                    f"this model needs {list(own[name].shape)}"
                )
            own[name].copy_(value)


def batch_tokens(device: torch.device) -> int:
    """Tokens that are read at once: what keeps the device busy and fits its memory, or a CPU's caches, also in EM.

    EM keeps a quarter of a megabyte for a token of the embedded encoder, half a one for BERT's width.
    """
    if device.type != "cuda":
        return 1024
    megabytes = torch.cuda.get_device_properties(device).total_memory // 2**20
    return int(min(65536, max(4096, megabytes // 1024 * 1024)))


def _one_of_few(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …"""
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power


def _rows(batch: Batch, start: int, stop: int) -> Batch:
    return Batch(**{name: value[start:stop] for name, value in vars(batch).items()})


def valid_iob2(tags: list[str]) -> list[str]:
    """Turn an ``I-`` that continues nothing into ``B-``: the same entities, in a form every tool accepts."""
    fixed, previous = [], "O"
    for tag in tags:
        if tag.startswith("I-") and previous[2:] != tag[2:]:
            tag = "B-" + tag[2:]
        fixed.append(tag)
        previous = tag
    return fixed


def _languages(sentence: Sentence) -> Iterator[str]:
    if sentence.word_languages is not None:
        yield from sentence.word_languages
    elif sentence.language is not None:
        yield sentence.language
    else:
        raise ZgulError("a sentence has no language; say which it is in (--lang, or Sentence(language=...))")


def _load_bank(folder: Path, config: dict[str, Any]) -> list[LanguageAdapter]:
    if config["bank"] == "none":
        return []
    if config["bank"] == "inside":
        return load_adapters(folder / "bank.safetensors")
    from zgul.tagging.shipped import adapters

    found = adapters(list(config["sources"]))
    if config.get("bank_checksum") not in (None, checksum(found)):
        raise ZgulError(
            f"{folder} was saved without its language adapters (bank=False), and those that come with the package are "
            "others: it would tag wrongly. Save it with its adapters (bank=True), or let ZGUL_TAGGERS name a folder "
            "whose adapters.safetensors holds them."
        )
    return found
