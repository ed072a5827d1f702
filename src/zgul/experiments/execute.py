"""Doing one run: train (or go on from a checkpoint), choose EM's settings, infer in every way asked for, score.

What is finished is kept at once: trained weights when training ends, each score with its tags when it is known. A run
that was killed starts where it stood.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zgul.adapters.storage import load_adapters
from zgul.corpora.encode import EncodedCorpus, PieceEncoder
from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import EMConfig
from zgul.evaluation import scores
from zgul.experiments import text
from zgul.experiments.plan import TEXT, Inputs, Protocol, Run
from zgul.experiments.resources import Resources
from zgul.methods.tagger import Prediction, Tagger
from zgul.paper.store import DONE, Score, Store
from zgul.tensors import load_tensors, load_with_metadata, save_tensors
from zgul.training.config import NoiseConfig, TrainingConfig
from zgul.training.data import LabelledData
from zgul.training.em_settings import EMTable, Grid, best_setting, em_table
from zgul.training.loop import Trainer, seed_everything

Report = Callable[[dict[str, Any]], None]
WEIGHTS = "trained.safetensors"


class PacedTrainer(Trainer):
    """Writes a checkpoint once in a while, not at every evaluation and not at the end, when the weights are kept."""

    pace = 60.0  # seconds
    saved = 0.0

    def _save(self) -> None:
        if time.monotonic() - self.saved >= self.pace and self.progress.step < self.total_steps:
            super()._save()
            self.saved = time.monotonic()


@dataclass
class Examples(LabelledData):
    """Examples of a target; the model is told of it once, when they are first encoded, and not while it trains."""

    tagger: Tagger | None = None
    rows: dict[str, int] = field(default_factory=dict)
    encoded: EncodedCorpus | None = None

    def encode(self, sentences: Sequence[Sentence], pieces: PieceEncoder, rows: dict[str, int]) -> EncodedCorpus:
        assert self.tagger is not None
        self.rows = self.rows or self.tagger.prepare(list(self.corpus_of))
        corpus = super().encode(sentences, self.tagger.pieces, self.rows)
        if sentences is self.train:
            self.encoded = corpus
        return corpus

    def encode_epoch(self, pieces: PieceEncoder, rows: dict[str, int], seed: int, epoch: int) -> EncodedCorpus:
        assert self.encoded is not None
        return self.encoded


@dataclass
class Trained:
    """A trained model in memory, with a copy of its weights to come back to."""

    run: str
    tagger: Tagger
    weights: dict[str, Tensor]
    facts: dict[str, Any]

    @torch.no_grad()
    def restore(self) -> Tagger:
        own = dict(self.tagger.model.named_parameters())
        for name, value in self.weights.items():
            own[name].copy_(value)
        return self.tagger


class Executor:
    """Does runs one after another in one process."""

    def __init__(
        self,
        store: Store,
        inputs: Inputs,
        protocol: Protocol,
        device: torch.device,
        *,
        cache: Path | None = None,
        pace: float = PacedTrainer.pace,
        report: Report | None = None,
    ) -> None:
        self.store, self.protocol, self.device, self.pace = store, protocol, device, pace
        self.resources = Resources(inputs, protocol, cache)
        self.report = report
        self._held: Trained | None = None

    def execute(self, run: Run, needed: dict[str, Run]) -> dict[str, Any]:
        """Do a run; ``needed`` are the runs it starts from, by hash. Gives the facts."""
        if run.method == TEXT:
            facts = text.adapt(run, self.resources, self.store.run_folder(run.hash), self.device, self.report)
        elif run.part == "few-shot":
            facts = self._few_shot(run, needed[run.needs[0]])
        elif run.extra.get("variant") == "MADX^multi-Tgt":
            facts = self._with_target_adapter(run, needed)
        else:
            held = self._trained(run, needed)
            facts = self._score(run, held.tagger, held.facts | self.store.facts(run.hash))
        return facts | self._machine()

    def release(self) -> None:
        """Let go of the model that is held."""
        self._held = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    # --- models

    def _trained(self, run: Run, needed: dict[str, Run]) -> Trained:
        """The run's trained model: as it is held, from its file, or trained now."""
        if self._held is not None and self._held.run == run.hash:
            return self._held
        self.release()
        config = run.training()
        self.resources.preload(config, run.languages)
        data = self.resources.labelled(config)
        tagger = self._untrained(run, config, data.labels, needed)
        path = self.store.run_folder(run.hash) / WEIGHTS
        with self.store.lock(f"{run.hash}.weights"):  # several may find them gone and want them back
            if path.is_file():
                weights, notes = load_with_metadata(path)
                self._held = Trained(run.hash, tagger, weights, json.loads(notes["facts"]))
                self._held.restore()
            else:
                if self.store.status(run.hash) != DONE:
                    self.store.forget_scores(run.hash)  # they would be of other weights
                tagger.model.start_at(data.label_shares())
                facts = self._train(tagger, data, config, path.parent)
                own = dict(tagger.model.named_parameters())
                weights = {name: own[name].detach().clone() for name in tagger.trained}
                self._held = Trained(run.hash, tagger, weights, facts)
                save_tensors(path, weights, metadata={"facts": json.dumps(facts)})
                (path.parent / "checkpoint.safetensors").unlink(missing_ok=True)
        return self._held

    def _untrained(self, run: Run, config: TrainingConfig, labels: Sequence[str], needed: dict[str, Run]) -> Tagger:
        from zgul.encoders.encoder import Encoder
        from zgul.methods import method

        model, tokenizer = self.resources.encoder()
        if run.extra.get("encoder"):
            model.load_state_dict(load_tensors(self._read(run, needed) / text.ENCODER))
        adapters = []
        if method(config.method).needs_bank:
            adapters = list(self.resources.adapters(config.sources, Encoder(model)))
            if run.extra.get("adapter"):
                adapters += load_adapters(self._read(run, needed) / text.ADAPTER)
        seed_everything(config.seed)
        tagger = Tagger.new(
            config.method,
            encoder=(model, tokenizer),
            task=config.task,
            labels=labels,
            sources=config.sources,
            adapters=adapters,
            options=config.options,
        ).to(self.device)
        tagger.pieces = self.resources.piece_encoder(tagger.parts.encoder.max_pieces)
        return tagger

    def _read(self, run: Run, needed: dict[str, Run]) -> Path:
        """The folder of the run on text that a run needs, whose files may have been removed meanwhile."""
        other = next(needed[need] for need in run.needs if needed[need].method == TEXT)
        folder = self.store.run_folder(other.hash)
        with self.store.lock(f"{other.hash}.weights"):
            if not (folder / text.ENCODER).is_file():
                text.adapt(other, self.resources, folder, self.device, self.report)
        return folder

    def _train(self, tagger: Tagger, data: LabelledData, config: TrainingConfig, folder: Path | None) -> dict[str, Any]:
        trainer = PacedTrainer(tagger, data, config, folder)
        trainer.pace, trainer.saved = self.pace, time.monotonic()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        if folder is not None and (folder / "checkpoint.safetensors").is_file():
            self._tell({"stage": "resuming"})
            history = trainer.run(resume=True, report=self._tell)
        else:
            history = trainer.run(report=self._tell)
        seconds = time.monotonic() - started
        progress = trainer.progress
        del trainer
        gc.collect()  # captured graphs hold memory of the GPU, and are held in a circle
        return {
            "trainable": sum(value.numel() for value in tagger.model.parameters() if value.requires_grad),
            "sentences": len(data.train),
            "labels": list(tagger.labels),
            "steps": progress.step,
            "epochs": progress.epoch,
            "train_seconds": round(seconds, 2),
            "seconds_per_epoch": round(seconds / max(1, config.rounds), 3),
            "dev_f1": [round(entry["dev_f1"], 3) for entry in history],
            "loss": [round(entry["loss"], 4) for entry in history],
        }

    def _few_shot(self, run: Run, base: Run) -> dict[str, Any]:
        """Train the base's model on with examples of a target, and score it there."""
        held = self._trained(base, {})
        tagger, config = held.restore(), run.training()
        language, count = run.extra["language"], run.extra["examples"]
        facts: dict[str, Any] = {}
        if count:
            found = self.resources.sentences(config.task, language, run.extra["split"])
            order = np.random.default_rng([run.extra["draw"], 11]).permutation(len(found))
            chosen = [found[int(index)] for index in order[:count]]  # ten of the thirty are the ten
            known = torch.ones(1, len(tagger.labels), dtype=torch.bool)
            examples = Examples(chosen, [], list(tagger.labels), known, {language: 0}, NoiseConfig(), tagger)
            seed_everything(run.extra["draw"])
            facts = self._train(tagger, examples, config, None)
        facts["em_of"] = base.hash
        chosen_em = self.store.facts(base.hash).get("em", {})
        return self._score(run, tagger, facts, chosen_em)

    def _with_target_adapter(self, run: Run, needed: dict[str, Run]) -> dict[str, Any]:
        """MADX^multi-Tgt: the zero-shot model, reading a target with that target's own adapter."""
        base = next(needed[hash] for hash in run.needs if needed[hash].method != TEXT)
        held = self._trained(base, {})
        tagger = self._untrained(run, base.training(), held.tagger.labels, needed)
        other = Trained(run.hash, tagger, held.weights, {})
        return self._score(run, other.restore(), {})

    # --- inference

    def _score(
        self, run: Run, tagger: Tagger, facts: dict[str, Any], known: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Every row on every language that has no score yet; ``known`` are EM settings chosen before."""
        config = run.training()
        there = self.store.scored(run.hash)
        tables: dict[tuple[str, str, str, str], EMTable] = {}
        for row in run.rows:
            for language in run.languages:
                if (row["row"], language) in there:
                    continue
                self._tell({"stage": f"{row['row']} on {language}"})
                em = self._settings(tagger, config, row, language, tables, (known or {}).get(row["row"], {}))
                if row["em"] == "target" and em is None:
                    continue  # no dev set to choose on
                self._score_one(run, tagger, row, language, em, facts)
                self.store.remember(run.hash, facts)
        return facts

    def _score_one(
        self,
        run: Run,
        tagger: Tagger,
        row: dict[str, Any],
        language: str,
        em: dict[str, Any] | None,
        facts: dict[str, Any],
    ) -> None:
        config = run.training()
        sentences = self.resources.test(config.task, language)
        started = time.monotonic()
        settings = {key: value for key, value in (em or {}).items() if key in EMConfig.__dataclass_fields__}
        tagger.em = {language: EMConfig(**settings)} if em is not None else {}
        predicted = tagger.predict(sentences, strategy=row["strategy"], weights=bool(row["weights"]))
        seconds = time.monotonic() - started
        if row["weights"]:
            _note_weights(facts, tagger, language, predicted)
        if em is not None:
            facts.setdefault("em", {}).setdefault(row["row"], {})[language] = em
        tags = [prediction.tags for prediction in predicted]
        if not self.store.has_gold(run.group, language):
            self.store.add_gold(run.group, language, sentences)
        self.store.add_score(_score_of(run.hash, row["row"], language, sentences, tags, seconds, em), tags)

    def _settings(
        self,
        tagger: Tagger,
        config: TrainingConfig,
        row: dict[str, Any],
        language: str,
        tables: dict[tuple[str, str, str, str], EMTable],
        known: dict[str, Any],
    ) -> dict[str, Any] | None:
        """EM's settings for a row and a target: given, chosen before, or the best of the grid on a dev set."""
        if row["em"] is None:
            return None
        base = EMConfig(start=row["start"], tied=row["strategy"] in ("em-tied", "emea"))
        if isinstance(row["em"], dict):
            return asdict(replace(base, **row["em"]))
        if language in known:
            return dict(known[language])
        own = row["em"] == "target"
        source, dev = self._own_dev(config, language) if own else self.resources.judge(config, language)
        if not config.em_sentences:
            return asdict(base)
        if not dev:
            return None
        key = (row["strategy"], row["start"], source, "target" if own else "source")
        if key not in tables:
            tagger.em = {"": base}
            grid = Grid(self.protocol.em_steps, self.protocol.em_rates)
            tables[key] = em_table(tagger, dev, grid, strategy=row["strategy"])
        table = tables[key]
        best = best_setting([table])
        return asdict(replace(base, steps=best.steps, lr=best.lr)) | {
            "on": f"{source} dev",
            "sentences": table.sentences,
            "f1": round(table.f1[best.steps, best.lr], 3),
            "f1_without_em": round(table.without, 3),
        }

    def _own_dev(self, config: TrainingConfig, language: str) -> tuple[str, list[Sentence]]:
        """A target's own dev set; nothing where it has none."""
        from zgul.experiments import checksums
        from zgul.training.data import sample

        if checksums.labelled(self.resources.inputs.data, config.task, language, "dev") is None:
            return language, []
        found = self.resources.sentences(config.task, language, "dev")
        return language, sample(found, config.em_sentences, config.seed)

    # --- the rest

    def _tell(self, status: dict[str, Any]) -> None:
        if self.report is not None:
            self.report(status)

    def _machine(self) -> dict[str, Any]:
        from zgul import __version__

        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        return {"device": name, "versions": {"zgul": __version__, "torch": torch.__version__}}


def _note_weights(facts: dict[str, Any], tagger: Tagger, language: str, predicted: Sequence[Prediction]) -> None:
    """Mean weight of every adapter over words, layers and sentences, by view; after EM and before."""
    views = tagger.method.views or ("emea",)
    assert tagger.model.bank is not None
    sources = tagger.model.bank.languages
    for name in ("weights", "weights_before"):
        found = [getattr(prediction, name) for prediction in predicted if len(prediction.tags)]
        mean = np.concatenate(found).mean(axis=0)  # [K, N]
        for view, row in zip(views, mean, strict=True):
            by_target = facts.setdefault(name, {}).setdefault(view, {})
            by_target[language] = {source: round(float(w), 6) for source, w in zip(sources, row, strict=True)}


def _score_of(
    run: str,
    row: str,
    language: str,
    sentences: Sequence[Sentence],
    tags: list[list[str]],
    seconds: float,
    em: dict[str, Any] | None,
) -> Score:
    gold = [sentence.tags or [] for sentence in sentences]
    result = scores(gold, tags)
    correct = sum(a == b for one, other in zip(gold, tags, strict=True) for a, b in zip(one, other, strict=True))
    return Score(
        run=run,
        row=row,
        language=language,
        f1=result.f1,
        accuracy=result.accuracy,
        precision=result.precision,
        recall=result.recall,
        per_class={name: dict(values) for name, values in result.per_class.items()},  # type: ignore[arg-type]
        sentences=result.sentences,
        words=result.words,
        correct=correct,
        seconds=round(seconds, 3),
        em=em,
    )
