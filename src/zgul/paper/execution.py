"""Execute one run: train (or continue from a checkpoint), choose EM settings, tag with every row's strategy, score.

Results are saved at once: trained weights when training ends, each score with its tags when it is known. A run that
was killed continues where it stopped. `Resources` holds what the runs of one process share.
"""

import copy
import gc
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zgul import __version__, encoders
from zgul.adapters.storage import save_adapters
from zgul.corpora.data_folder import DataFolder, source_split
from zgul.corpora.sentence import Sentence
from zgul.devices import find_device, uses_bfloat16
from zgul.encoders.batches import PieceEncoder
from zgul.encoders.encoder import Encoder
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.ensemble.em import EMConfig
from zgul.evaluation import scores
from zgul.languages import most_related
from zgul.methods.base import TIED
from zgul.paper.plan import TEXT_RUN, Inputs, Protocol, Run
from zgul.paper.store import DONE, Score, Store
from zgul.tagger import Prediction, Tagger
from zgul.tensors import load_tensors, load_with_metadata, save_tensors
from zgul.training.adapter_training import AdapterConfig, load_head, split_text, train_adapter
from zgul.training.config import TrainingConfig
from zgul.training.em_tuning import EMTable, Grid, best_setting, em_table
from zgul.training.labelled_data import LabelledData, load_labelled, sample
from zgul.training.run import new_tagger
from zgul.training.trainer import CHECKPOINT, Trainer

WEIGHTS = "trained.safetensors"
CHECKPOINT_EVERY = 60.0  # seconds
ADAPTER, ENCODER = "adapter.safetensors", "encoder.safetensors"  # files of a run on a target's text
BLOCK = 128  # pieces
JUDGED = 64  # held-out blocks at most: about 1,200 masked pieces
MEASURED = ("f1", "accuracy", "precision", "recall", "per_class", "sentences", "words")  # what a score keeps
Runs = dict[str, Run]  # by hash
Facts = dict[str, Any]  # what a run records besides its scores


class Resources:
    """Reads encoder and data from files, once in a process."""

    def __init__(self, inputs: Inputs, protocol: Protocol) -> None:
        self.inputs, self.protocol = inputs, protocol
        self.data = DataFolder(inputs.data)
        self._sentences: dict[tuple[str, str, str, int], list[Sentence]] = {}

    @cached_property
    def encoder(self) -> tuple[Encoder, PieceTokenizer]:
        """The encoder, whose weights all runs share, and the tokenizer."""
        return encoders.load(self.inputs.encoder)

    def sentences(self, task: str, language: str, split: str, limit: int = 0) -> list[Sentence]:
        """A split, or a sample of ``limit`` of its sentences. The sample is the same for every run."""
        key = (task, language, split, limit)
        if key not in self._sentences:
            whole = self.data.sentences(task, language, split)
            self._sentences[key] = sample(whole, limit, 0) if limit else whole
            gc.freeze()  # these millions of words stay: searching them for garbage would take seconds each time
        return self._sentences[key]

    def test(self, task: str, language: str) -> list[Sentence]:
        return self.sentences(task, language, "test", self.protocol.test_limit)

    def labelled(self, config: TrainingConfig) -> LabelledData:
        """The data that a configuration trains on."""
        data = load_labelled(config, self._read)
        if config.limit:  # a few sentences may lack a rare label
            known = {*data.labels, *config.unannotated}
            data.dev = [sentence for sentence in data.dev if known.issuperset(sentence.tags or ())]
        return data

    def _read(self, task: str, language: str, split: str) -> list[Sentence]:
        return self.sentences(task, language, split, self.protocol.dev_limit if split.endswith("dev") else 0)

    def em_sample(self, config: TrainingConfig, target: str, *, of_target: bool) -> tuple[str, list[Sentence]]:
        """The target or its most related source, and a sample of its dev set, if it has one, to choose EM settings."""
        language, split = target, "dev"
        if not of_target:
            kept = [source for source in config.kept_sources if config.em_by == "source" or source != "en"]
            language = most_related(target, kept)
            split = source_split(config.group, language, "dev")
        if self.data.labelled_file(config.task, language, split) is None:
            return language, []
        return language, sample(self.sentences(config.task, language, split), config.em_sentences, config.seed)


@dataclass
class HeldModel:
    """A trained model in memory, with a copy of its weights to come back to."""

    run: str
    tagger: Tagger
    weights: dict[str, Tensor]
    facts: Facts

    @torch.no_grad()
    def restored(self) -> Tagger:
        """The tagger with these weights."""
        own = dict(self.tagger.model.named_parameters())
        for name, value in self.weights.items():
            own[name].copy_(value)
        return replace(self.tagger)


class Executor:
    """Executes runs one after another in one process."""

    def __init__(self, store: Store, inputs: Inputs, protocol: Protocol) -> None:
        self.store, self.protocol = store, protocol
        self.device = find_device(inputs.device)
        self.resources = Resources(inputs, protocol)
        half = uses_bfloat16(self.device, protocol.precision)
        self.precision = "bfloat16" if half else "float32"  # of predictions
        self.held: HeldModel | None = None  # the model in memory
        self._needed: Runs = {}
        self._tables: dict[tuple[str, str, str], EMTable] = {}  # F1 of EM settings, of the model that is scored

    def execute(self, run: Run, needed: Runs) -> Facts:
        """Execute a run and return its facts. ``needed`` are the runs it starts from, by hash."""
        self._needed = needed
        if run.method == TEXT_RUN:
            facts = read_text(run, self.resources, self.store.run_folder(run.hash), self.device)
        elif run.part == "few-shot":
            facts = self._few_shot(run, needed[run.needs[0]])
        elif run.extra.get("variant") == "MADX^multi-Tgt":  # the zero-shot model with the target's own adapter
            weights = self._trained(needed[run.needs[0]]).weights
            facts = self._score(run, HeldModel(run.hash, self._untrained(run), weights, {}).restored(), {})
        elif not run.rows:  # a tuning run, of which only the dev F1 is needed
            self.release()
            facts = self._train(self._untrained(run), run.training(), folder=self.store.run_folder(run.hash))
        else:
            held = self._trained(run)
            facts = self._score(run, held.restored(), held.facts | self.store.facts(run.hash))
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        return facts | {"device": name, "versions": {"zgul": __version__, "torch": torch.__version__}}

    def release(self) -> None:
        """Free the memory of the model that is held."""
        self.held = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _trained(self, run: Run) -> HeldModel:
        """The run's trained model: from memory, from its file, or trained now."""
        if self.held is not None and self.held.run == run.hash:
            return self.held
        self.release()
        tagger = self._untrained(run)
        path = self.store.run_folder(run.hash) / WEIGHTS
        with self.store.lock(f"{run.hash}.weights"):  # several processes may need them at the same time
            if path.is_file():
                weights, notes = load_with_metadata(path)
                facts = json.loads(notes["facts"])
            else:
                if self.store.status(run.hash) != DONE:
                    self.store.forget_scores(run.hash)  # they belong to other weights
                facts = self._untrained_weights(run, tagger)
                facts |= self._train(replace(tagger), run.training(), folder=path.parent)
                own = dict(tagger.model.named_parameters())
                weights = {name: own[name].detach().clone() for name in tagger.trained_names}
                save_tensors(path, weights, metadata={"facts": json.dumps(facts)})
                (path.parent / CHECKPOINT).unlink(missing_ok=True)
        self.held = HeldModel(run.hash, tagger, weights, facts)
        return self.held

    def _untrained(self, run: Run, config: TrainingConfig | None = None) -> Tagger:
        """A new tagger for a run, or for another configuration of it."""
        config = config or run.training()
        (encoder, tokenizer), data = self.resources.encoder, self.resources.labelled(config)
        if run.extra.get("encoder"):
            encoder = copy.deepcopy(encoder)
            encoder.load_state_dict(load_tensors(self._text_folder(run) / ENCODER))
        inputs = self.resources.inputs
        places = config.adapters if config.adapters in ("new", "none") else inputs.adapters
        if run.extra.get("adapter"):  # the target's own, which was trained on its text
            places = f"{self._text_folder(run) / ADAPTER},{places}"
            config = replace(config, extra_adapters=(run.extra["language"],))
        config = replace(config, device=str(self.device), encoder=inputs.encoder, adapters=places)
        tagger = new_tagger(config, data.labels, encoder=(encoder, tokenizer))
        tagger.model.start_head_at(data.label_shares().to(self.device))
        return replace(tagger, precision=self.precision)

    def _text_folder(self, run: Run) -> Path:
        """The folder of the text run that a run needs. Files that were removed are made again."""
        other = next(self._needed[need] for need in run.needs if self._needed[need].method == TEXT_RUN)
        folder = self.store.run_folder(other.hash)
        with self.store.lock(f"{other.hash}.weights"):
            if not (folder / ENCODER).is_file():
                read_text(other, self.resources, folder, self.device)
        return folder

    def _train(
        self, tagger: Tagger, config: TrainingConfig, data: LabelledData | None = None, folder: Path | None = None
    ) -> Facts:
        """Train the tagger's model in place. Returns the facts."""
        data = data or self.resources.labelled(config)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        trainer = Trainer(tagger, data, config, folder, checkpoint_every=CHECKPOINT_EVERY)
        trainer.resume()
        started = time.monotonic()
        history = trainer.run()
        seconds, progress = time.monotonic() - started, trainer.progress
        del trainer
        gc.collect()  # captured graphs hold GPU memory, and a reference cycle holds them
        trainable = sum(value.numel() for value in tagger.model.parameters() if value.requires_grad)
        facts: Facts = {"trainable": trainable, "sentences": len(data.train), "labels": list(tagger.labels)}
        facts |= {"steps": progress.step, "epochs": progress.epoch, "train_seconds": round(seconds, 2)}
        facts["seconds_per_epoch"] = round(seconds / max(1, config.rounds), 3)
        for name, digits in (("dev_f1", 3), ("loss", 4)):
            facts[name] = [round(entry[name], digits) for entry in history]
        return facts

    def _few_shot(self, run: Run, base: Run) -> Facts:
        """Train the base's model further on examples of a target, and score it there."""
        tagger, config = self._trained(base).restored(), run.training()
        language, count = run.extra["language"], run.extra["examples"]
        facts: Facts = {}
        if count:
            there = self.resources.sentences(config.task, language, run.extra["split"])
            order = np.random.default_rng([run.extra["draw"], 11]).permutation(len(there))
            chosen = [there[int(index)] for index in order[:count]]  # the ten examples are among the thirty
            known = torch.ones(1, len(tagger.labels), dtype=torch.bool)
            torch.manual_seed(run.extra["draw"])
            facts = self._train(tagger, config, LabelledData(chosen, [], list(tagger.labels), known, {language: 0}))
        return self._score(run, replace(tagger), facts, self.store.facts(base.hash).get("em", {}))

    def _score(self, run: Run, tagger: Tagger, facts: Facts, known: Facts | None = None) -> Facts:
        """Score every row on every language that has no score yet. ``known`` are EM settings chosen before."""
        scored = self.store.scored(run.hash)
        self._tables.clear()
        for row in run.rows:
            for language in (code for code in run.languages if (row["row"], code) not in scored):
                em = (known or {}).get(row["row"], {}).get(language) or self._settings(tagger, run, row, language)
                if row["em"] == "target" and em is None:
                    continue  # no dev set to choose on
                self._score_one(run, tagger, row, language, em, facts)
                self.store.update(run.hash, facts=facts)
        return facts

    def _score_one(self, run: Run, tagger: Tagger, row: Facts, language: str, em: Facts | None, facts: Facts) -> None:
        sentences = self.resources.test(tagger.task, language)
        started = time.monotonic()
        config = EMConfig(**{key: em[key] for key in EMConfig.__dataclass_fields__ if key in em}) if em else None
        predicted = tagger.predict(sentences, strategy=row["strategy"], em=config, weights=bool(row["weights"]))
        seconds = round(time.monotonic() - started, 3)
        if row["weights"]:
            _note_weights(facts, tagger, language, predicted, "weights")
        if em is not None:
            facts.setdefault("em", {}).setdefault(row["row"], {})[language] = em
        tags = [prediction.tags for prediction in predicted]
        if (run.group, language) not in self.store.gold_keys():
            self.store.add_gold(run.group, language, sentences)
        result = scores([sentence.tags or [] for sentence in sentences], tags)
        values: dict[str, Any] = {name: getattr(result, name) for name in MEASURED}
        values |= {"correct": round(result.accuracy * result.words / 100), "seconds": seconds, "em": em}
        self.store.add_score(Score(run.hash, row["row"], language, **values), tags)

    def _untrained_weights(self, run: Run, tagger: Tagger) -> Facts:
        """The adapters' weights before training, if the method learns them and the run records them."""
        facts: Facts = {}
        if tagger.method.views and any(row["weights"] for row in run.rows):
            for language in run.languages:
                sentences = self.resources.test(tagger.task, language)
                predicted = tagger.predict(sentences, strategy="plain", weights=True)
                _note_weights(facts, tagger, language, predicted, "weights_untrained")
        return facts

    def _settings(self, tagger: Tagger, run: Run, row: Facts, language: str) -> Facts | None:
        """EM settings for a row and a target: those of the row, or the best of the grid on a dev set."""
        if row["em"] is None:
            return None
        base = EMConfig(start=row["start"], tied=row["strategy"] in TIED)
        if isinstance(row["em"], dict):
            return asdict(replace(base, **row["em"]))
        config = run.training()
        if not config.em_sentences:
            return asdict(base)
        of_target = row["em"] == "target"
        source, dev = self.resources.em_sample(config, language, of_target=of_target)
        if not dev:
            return None
        left_out = config.em_by == "loso" and not of_target
        key = (row["strategy"], row["start"], source)
        if key not in self._tables:
            if left_out:  # train the run's model without that source, so that it is as unseen as a target
                without = replace(config, leave_out=(source,))
                tagger = self._untrained(run, without)
                self._train(tagger, without)
                tagger = replace(tagger)
            grid = Grid(self.protocol.em_steps, self.protocol.em_rates)
            self._tables[key] = em_table(tagger, dev, grid, strategy=row["strategy"], start=row["start"])
        table = self._tables[key]
        best = best_setting([table])
        return asdict(best) | {
            "on": f"{source} dev" + (", left out of training" if left_out else ""),
            "sentences": table.sentences,
            "f1": round(table.f1[best.steps, best.lr], 3),
            "f1_without_em": round(table.without, 3),
        }


def _note_weights(facts: Facts, tagger: Tagger, language: str, predicted: Sequence[Prediction], note: str) -> None:
    """Note the mean weight of every adapter over words, layers and sentences, by view."""
    weights = [prediction.weights for prediction in predicted if prediction.weights is not None and prediction.tags]
    mean = np.concatenate(weights).mean(axis=0)  # [K, N]
    for view, row in zip(tagger.method.views or ("emea",), mean, strict=True):
        shares = {source: round(float(w), 6) for source, w in zip(tagger.bank_languages, row, strict=True)}
        facts.setdefault(note, {}).setdefault(view, {})[language] = shares


def read_text(run: Run, resources: Resources, folder: Path, device: torch.device) -> Facts:
    """Execute a run on unlabelled text: train the target's adapter, and train the encoder further (mBERT^tgt).

    Both start from the unchanged encoder and from one masked-LM head, which comes from a file or is trained first on
    the same text. Returns facts, among them the accuracy at masked places.
    """
    config, language = run.config, str(run.extra["language"])
    shared, tokenizer = resources.encoder
    encoder = copy.deepcopy(shared)
    pieces = PieceEncoder(tokenizer, encoder.max_pieces)
    lines = list(dict.fromkeys(resources.data.text_lines(language)))
    order = np.random.default_rng(5).permutation(len(lines))[: config["lines"] or None]
    kept = order[: max(1, round(run.extra["share"] * len(order)))]  # a larger share contains a smaller one
    blocks = split_text([lines[int(index)] for index in kept], pieces, min(BLOCK, encoder.max_pieces))
    blocks = replace(blocks, held_out=blocks.held_out[:JUDGED])
    encoder.to(device)
    plain = AdapterConfig(steps=config["steps"], blocks=config["blocks"], lr=config["lr"], seed=run.seed)
    head = load_head(Path(resources.inputs.head), encoder) if resources.inputs.head else None
    small = train_adapter(language, blocks, encoder, pieces, plain, head=head)
    assert small.adapter is not None
    whole = replace(plain, full=True, lr=config["encoder_lr"])
    full = train_adapter(language, blocks, encoder, pieces, whole, head=copy.deepcopy(small.head))
    save_adapters(folder / ADAPTER, [small.adapter])
    save_tensors(folder / ENCODER, encoder.state_dict(), bits=16)
    scored = {"before": small.scores["none"], "adapter": small.scores[language], "encoder": full.scores["after"]}
    accuracies = {name: round(accuracy, 3) for name, (accuracy, _) in scored.items()}
    return {"lines": blocks.lines, "blocks": len(blocks.train), "masked_accuracy": accuracies}
