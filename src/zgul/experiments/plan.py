"""The paper's evaluation as a list of runs: one trained model each, with every inference that is made with it.

A run is known by a hash of everything that can change its result: configuration, rows, the checksums of the data, the
encoder and the adapters, the code of the parts it uses, and the runs it starts from. Parts:

    zero-shot    the main tables, the EM analyses, attention, class-wise F1, sizes and times
    treated      the same tables with what helps every method given to all: unannotated X and DATE, character noise
    few-shot     trained models that are trained on with 10 to 100 examples of a target
    unlabelled   text of a target: its adapter, an encoder pre-trained further on it, and the methods on these
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from zgul.errors import ZgulError, ZgulWarning
from zgul.experiments import checksums
from zgul.languages import GROUPS, find
from zgul.methods import METHODS
from zgul.training.config import TrainingConfig
from zgul.training.data import SPLITS
from zgul.training.em_settings import Grid

PARTS = ("zero-shot", "treated", "few-shot", "unlabelled")
TRAINED = ("sft-en", "madx", "madx-multi", "sft-m", "cpg", "zgul", "zgul-no-l", "zgul-no-f")
FEW_SHOT = ("zgul", "cpg", "sft-m")
TEXT = "text"  # the "method" of a run that reads unlabelled text
TREATMENT = {
    "unannotated": ("X",),
    "label_set_per_corpus": True,
    "noise": {"sentences": 0.6, "words": 0.4, "edits": 1},
}
# The paper's largest rates; the embedded encoder is smaller and wants more (by a first probe of it, not tuned)
RATES = {"sft-en": 5e-5, "sft-m": 5e-5}
RATE = 1e-4
EMBEDDED_RATES = {"sft-en": 2e-4, "sft-m": 2e-4, "cpg": 2e-4}
EMBEDDED_RATE = 5e-4


@dataclass(frozen=True)
class Protocol:
    """What can be told of the experiments. The defaults are the paper's."""

    seeds: tuple[int, ...] = (0, 1, 2)
    groups: tuple[str, ...] = tuple(GROUPS)
    limit: int = 0  # training sentences of each source; 0: all
    dev_limit: int = 0  # dev sentences of each source
    test_limit: int = 0  # test sentences of each target
    epochs: int = 0  # 0: 5 for POS, 10 for NER
    rates: tuple[tuple[str, float], ...] = ()  # learning rates by method; "" for all that are not named
    batch_size: int = 32
    accumulate: int = 4
    em_sentences: int = 300  # of the dev set that EM's settings are chosen on
    em_steps: tuple[int, ...] = Grid().steps
    em_rates: tuple[float, ...] = Grid().rates
    examples: tuple[int, ...] = (0, 10, 30, 70, 100)
    few_epochs: int = 10
    few_batch: int = 8
    few_lr: float = 0.0  # 0: the method's own
    shares: tuple[float, ...] = (0.25, 0.5, 1.0)  # of the text; 0 is the zero-shot model
    text_languages: tuple[str, ...] = ()  # none: all targets that have text
    text_lines: int = 0  # at most so many of them; 0: all
    text_steps: int = 2000  # of masked-LM training: of the head, of the adapter, of the encoder
    text_blocks: int = 16  # blocks of 128 pieces in such a step
    text_lr: float = 1e-3  # of head and adapter
    encoder_lr: float = 5e-5  # of the encoder on text
    precision: str = "auto"

    def __post_init__(self) -> None:
        if unknown := [group for group in self.groups if group not in GROUPS]:
            raise ZgulError(f"there is no group {unknown[0]!r}; there are: {', '.join(GROUPS)}")
        if not self.seeds:
            raise ZgulError("give at least one seed")
        if any(share <= 0 or share > 1 for share in self.shares):
            raise ZgulError("shares of the text lie between 0 and 1; 0 itself is the zero-shot model")

    def rate(self, method: str, encoder: str) -> float:
        """The learning rate of a method on an encoder."""
        told = dict(self.rates)
        if method in told or "" in told:
            return told.get(method, told.get("", 0.0))
        if is_embedded(encoder):
            return EMBEDDED_RATES.get(method, EMBEDDED_RATE)
        return RATES.get(method, RATE)


QUICK = Protocol(
    seeds=(0,),
    groups=("germanic",),
    limit=32,
    dev_limit=12,
    test_limit=12,
    epochs=1,
    batch_size=16,
    accumulate=1,
    em_sentences=6,
    em_steps=(1, 2),
    em_rates=(10.0, 30.0),
    examples=(0, 10),
    few_epochs=1,
    shares=(1.0,),
    text_languages=("fo",),
    text_lines=400,
    text_steps=3,
    text_blocks=2,
)


@dataclass(frozen=True)
class Inputs:
    """What all runs start from; paths are not part of a run, what is in the files is."""

    data: Path
    encoder: str = "embedded"
    adapters: str = "shipped"
    head: str = ""  # a masked-LM head for the text runs; "": each trains its own first
    device: str = "cpu"  # its kind: on a GPU the arithmetic is another


@dataclass(frozen=True)
class Run:
    """One trained model and what is asked of it."""

    part: str
    group: str
    method: str
    seed: int
    config: dict[str, Any]  # TrainingConfig without data and device; encoder and adapters by name alone
    rows: list[dict[str, Any]]  # {"row", "strategy", "em", "start", "weights"}: inferences with this one model
    languages: list[str]
    needs: list[str] = field(default_factory=list)  # hashes of the runs that must be done first
    extra: dict[str, Any] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)  # of code, data, encoder and adapters

    @cached_property
    def hash(self) -> str:
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return hashlib.sha256(json.dumps(told, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    @property
    def name(self) -> str:
        """For people: "few-shot germanic zgul seed 0, fo, 10 examples"."""
        told = [str(self.extra["language"])] if "language" in self.extra else []
        if "examples" in self.extra:
            told.append(f"{self.extra['examples']} examples")
        if "share" in self.extra:
            told.append(f"{100 * self.extra['share']:g}% of the text")
        if "variant" in self.extra:
            told.append(self.extra["variant"])
        return ", ".join([f"{self.part} {self.group} {self.method} seed {self.seed}", *told])

    def training(self) -> TrainingConfig:
        return TrainingConfig.from_dict(self.config)


def is_embedded(encoder: str) -> bool:
    """The embedded encoder, or a copy of it without the pieces that the data never uses."""
    return encoder == "embedded" or encoder.endswith(".q4.safetensors")


def paper_plan(inputs: Inputs, protocol: Protocol | None = None, *, code: str = "") -> list[Run]:
    """Every run of the evaluation that the data allows; ``code`` stands for another checksum of the code."""
    runs = _Planner(inputs, protocol or Protocol(), code or checksums.of_code()).runs()
    if not runs:
        raise ZgulError(f"{inputs.data} has the data of no group; see: zgul data list")
    return runs


def choose(runs: list[Run], only: Sequence[str]) -> list[Run]:
    """The runs that match, and those that they need.

    A pattern is a part, group, method or target, or several of them with slashes, which must all fit.
    """
    patterns = [pattern.strip("/").split("/") for item in only for pattern in item.split(",") if pattern.strip("/")]
    if not patterns:
        return runs
    words = {word for run in runs for word in _words(run)}
    for word in (word for pattern in patterns for word in pattern if word != "*"):
        if word not in words:
            raise ZgulError(f"--only {word}: no run has it; there are: {', '.join(sorted(words))}")
    chosen = {run.hash for run in runs if any(set(pattern) - {"*"} <= _words(run) for pattern in patterns)}
    if not chosen:
        raise ZgulError(f"no run fits --only {', '.join(only)}; see the plan with --dry-run")
    known = {run.hash: run for run in runs}
    waiting = list(chosen)
    while waiting:
        needed = set(known[waiting.pop()].needs) - chosen
        chosen |= needed
        waiting += needed
    return [run for run in runs if run.hash in chosen]


def _words(run: Run) -> set[str]:
    words = {run.part, run.group, run.method}
    return words | {run.extra["language"]} if "language" in run.extra else words


def rows_of(method: str) -> list[dict[str, Any]]:
    """The inferences of the zero-shot tables and of the EM analyses, under the paper's titles."""
    if method == "madx":
        return [_row("MADX-En", "en"), _row("MADX-Rel", "rel"), _row("MADX-EMEA", "emea", em="source")]
    if method == "madx-multi":
        return [
            _row("MADX^multi-En", "en"),
            _row("MADX^multi-Rel", "rel"),
            _row("MADX^multi-Uniform", "uniform"),
            _row("MADX^multi-EMEA", "emea", em="source", weights=True),
            _row("MADX^multi-EMEA, EM on target dev", "emea", em="target"),
        ]
    if method == "zgul":
        control = {"steps": 1, "lr": 0.0}
        return [
            _row("ZGUL", "em", em="source", weights=True),
            _row("ZGUL w/o EM", "plain"),
            _row("ZGUL, EM tied by layer", "em-tied", em="source"),
            _row("ZGUL, EM on target dev", "em", em="target"),
            _row("ZGUL, EM from probabilities", "em", em="source", start="probabilities"),
            _row("ZGUL, EM T=1 lr=0 from probabilities", "em", em=control, start="probabilities"),
        ]
    titles = {"zgul-no-l": "ZGUL w/o L", "zgul-no-f": "ZGUL w/o F"}
    if method in titles:
        return [_row(titles[method], "em", em="source")]
    return [_row({"sft-en": "SFT-En", "sft-m": "SFT-M", "cpg": "CPG"}[method], "plain")]


def main_rows(method: str) -> list[dict[str, Any]]:
    """The rows of the paper's main tables alone."""
    return [
        row
        for row in rows_of(method)
        if row["row"] in ("ZGUL", "ZGUL w/o EM") or (not row["row"].startswith("ZGUL,") and row["em"] != "target")
    ]


def _row(title: str, strategy: str, *, em: Any = None, start: str = "scores", weights: bool = False) -> dict[str, Any]:
    """``em``: None, settings, or whose dev set they are chosen on: the most related source's or the target's."""
    return {"row": title, "strategy": strategy, "em": em, "start": start, "weights": weights}


class _Planner:
    """Expands a protocol into runs."""

    def __init__(self, inputs: Inputs, protocol: Protocol, code: str) -> None:
        self.inputs, self.protocol = inputs, protocol
        self.common = {
            "code": code,
            "encoder": checksums.of_encoder(inputs.encoder),
            "device": inputs.device,
            "test_limit": str(protocol.test_limit),
            "dev_limit": str(protocol.dev_limit),
            "em": json.dumps([protocol.em_steps, protocol.em_rates]),
        }
        self.adapters = checksums.of_adapters(inputs.adapters)

    def runs(self) -> list[Run]:
        found: list[Run] = []
        for group in self.protocol.groups:
            if not self._has_sources(group):
                continue
            languages = self._targets(group)
            trained: dict[tuple[str, int], Run] = {}
            for seed in self.protocol.seeds:
                for method in TRAINED:
                    run = self._trained("zero-shot", group, method, seed, languages, rows_of(method))
                    trained[method, seed] = run
                    found.append(run)
                    found.append(self._trained("treated", group, method, seed, languages, main_rows(method), TREATMENT))
            for base in trained.values():
                if base.method in FEW_SHOT:
                    found += [run for language in languages for run in self._few_shot(base, language)]
            for language in languages:
                for share in self.protocol.shares:
                    found += self._unlabelled(group, language, share, trained)
        return list({run.hash: run for run in found}.values())

    # --- zero-shot and treated

    def _trained(
        self,
        part: str,
        group: str,
        method: str,
        seed: int,
        languages: list[str],
        rows: list[dict[str, Any]],
        changes: dict[str, Any] | None = None,
        *,
        needs: Sequence[str] = (),
        extra: dict[str, Any] | None = None,
    ) -> Run:
        config = self._config(group, method, seed, changes or {})
        sums = dict(self.common) | self._labelled(group, config, languages, rows)
        if _has_bank(method):
            sums["adapters"] = self.adapters
        return Run(part, group, method, seed, config, rows, languages, list(needs), extra or {}, sums)

    def _config(self, group: str, method: str, seed: int, changes: dict[str, Any]) -> dict[str, Any]:
        protocol = self.protocol
        values = {
            "method": method,
            "group": group,
            "task": GROUPS[group].task,
            "sources": GROUPS[group].sources,
            "encoder": _named(self.inputs.encoder),
            "adapters": _named(self.inputs.adapters) if _has_bank(method) else "none",
            "epochs": protocol.epochs,
            "lr": protocol.rate(method, self.inputs.encoder),
            "batch_size": protocol.batch_size,
            "accumulate": protocol.accumulate,
            "limit": protocol.limit,
            "seed": seed,
            "em_sentences": protocol.em_sentences,
            "precision": protocol.precision,
        }
        told = TrainingConfig.from_dict(values | changes).to_dict()
        plain: dict[str, Any] = json.loads(json.dumps({k: v for k, v in told.items() if k not in ("data", "device")}))
        return plain

    def _labelled(
        self, group: str, config: dict[str, Any], languages: list[str], rows: list[dict[str, Any]]
    ) -> dict[str, str]:
        """Checksums of the labelled files that a run reads."""
        english_only = METHODS[config["method"]].english_only
        read = [
            (source, SPLITS.get((group, source), "") + split)
            for source in config["sources"]
            for split in ("train", "dev")
            if source == "en" or not english_only or split == "dev"
        ]
        read += [(language, "test") for language in languages]
        if any(row["em"] == "target" for row in rows):
            read += [(language, "dev") for language in languages]
        task = config["task"]
        paths = {
            f"{task}/{code}/{split}": checksums.labelled(self.inputs.data, task, code, split) for code, split in read
        }
        return {name: checksums.of_file(path) for name, path in paths.items() if path is not None}

    def _has_sources(self, group: str) -> bool:
        task = GROUPS[group].task
        for source in GROUPS[group].sources:
            for split in ("train", "dev"):
                split = SPLITS.get((group, source), "") + split
                if checksums.labelled(self.inputs.data, task, source, split) is None:
                    message = f"{group} is left out: {self.inputs.data} has no {task}/{source}/{split}"
                    warnings.warn(message, ZgulWarning, stacklevel=2)
                    return False
        return True

    def _targets(self, group: str) -> list[str]:
        task = GROUPS[group].task
        found = []
        for language in GROUPS[group].targets:
            if checksums.labelled(self.inputs.data, task, language, "test") is None:
                message = f"{language} is left out: {self.inputs.data} has no {task}/{language}/test"
                warnings.warn(message, ZgulWarning, stacklevel=2)
            else:
                found.append(language)
        return found

    # --- few-shot

    def _few_shot(self, base: Run, language: str) -> list[Run]:
        """A model that is trained on with examples of a target; draw d starts from the model of seed d."""
        task = str(base.config["task"])
        split = few_split(self.inputs.data, task, language)
        if split is None:
            return []
        path = checksums.labelled(self.inputs.data, task, language, split)
        assert path is not None
        try:
            there = checksums.count_sentences(path, task)
        except ZgulError:  # the runs that read it will say what is wrong with it; the others need not wait for that
            there = max(self.protocol.examples, default=0)
        config = base.config | {
            "epochs": self.protocol.few_epochs,
            "batch_size": self.protocol.few_batch,
            "accumulate": 1,
            "select": "last",
            "lr": self.protocol.few_lr or base.config["lr"],
        }
        rows = [row | {"weights": False} for row in main_rows(base.method)]
        sums = base.checksums | {f"{task}/{language}/{split}": checksums.of_file(path)}
        return [
            Run(
                *("few-shot", base.group, base.method, base.seed, config, rows, [language], [base.hash]),
                {"language": language, "examples": count, "draw": base.seed, "split": split},
                sums,
            )
            for count in self.protocol.examples
            if count <= there
        ]

    # --- unlabelled text

    def _unlabelled(self, group: str, language: str, share: float, trained: dict[tuple[str, int], Run]) -> list[Run]:
        wanted = [find(code).code for code in self.protocol.text_languages]
        texts = checksums.texts(self.inputs.data, language)
        if not texts or (wanted and language not in wanted):
            return []
        extra: dict[str, Any] = {"language": language, "share": share}
        text = self._text(group, language, share, texts)
        found = [text]
        for seed in self.protocol.seeds:

            def add(
                method: str,
                title: str,
                strategy: str,
                seed: int = seed,
                *,
                adapter: bool = False,
                encoder: bool = False,
            ) -> None:
                rows = [_row(title, strategy, em="source" if strategy == "em" else None)]
                changes = {"extra_adapters": (language,)} if adapter else {}
                told = extra | {"variant": title, "adapter": adapter, "encoder": encoder}
                found.append(
                    self._trained(
                        *("unlabelled", group, method, seed, [language], rows, changes), needs=[text.hash], extra=told
                    )
                )

            base = trained["madx-multi", seed]  # its training never sees the target's adapter: the same model
            found.append(
                replace(
                    base,
                    part="unlabelled",
                    rows=[_row("MADX^multi-Tgt", "tgt")],
                    languages=[language],
                    needs=[base.hash, text.hash],
                    extra=extra | {"variant": "MADX^multi-Tgt", "adapter": True, "encoder": False},
                )
            )
            add("sft-m", "SFT++", "plain", encoder=True)
            add("zgul", "ZGUL++", "em", adapter=True, encoder=True)
            if share == 1.0:
                add("zgul", "ZGUL++ w/o target adapter", "em", encoder=True)
                add("zgul", "ZGUL++ w/o adapted encoder", "em", adapter=True)
        return found

    def _text(self, group: str, language: str, share: float, texts: Iterable[Path]) -> Run:
        """Masked-LM training on a share of a target's text: an adapter for it, and the whole encoder."""
        protocol = self.protocol
        config = {
            "encoder": _named(self.inputs.encoder),
            "lines": protocol.text_lines,
            "steps": protocol.text_steps,
            "blocks": protocol.text_blocks,
            "lr": protocol.text_lr,
            "encoder_lr": protocol.encoder_lr,
        }
        sums = {name: self.common[name] for name in ("code", "encoder", "device")}
        sums["head"] = checksums.of_file(Path(self.inputs.head)) if self.inputs.head else ""
        sums |= {f"text/{path.name}": checksums.of_file(path) for path in texts}
        extra = {"language": language, "share": share}
        return Run("unlabelled", group, TEXT, 0, config, [], [], [], extra, sums)


# what a protocol can be given more of without changing the runs that there are
_MORE = ("seeds", "groups", "examples", "shares", "text_languages")
_OF_PART = {"few-shot": "few_", "unlabelled": "text_"}  # how the settings of one part alone are called


def differences(protocol: Protocol, checks: dict[str, str], stored: dict[str, Any], parts: Iterable[str]) -> list[str]:
    """In what these runs would differ from stored ones of these parts: in settings, data, encoder or adapters."""
    told, parts = [], set(parts)
    before: dict[str, Any] = json.loads(json.dumps(stored.get("protocol", {})))
    for name, value in json.loads(json.dumps(asdict(protocol))).items():
        part = next((part for part, start in _OF_PART.items() if name.startswith(start)), None)
        part = "unlabelled" if name == "encoder_lr" else part
        if name not in _MORE and name in before and before[name] != value and part in {None, *parts}:
            told.append(f"{name} was {before[name]} and is {value}")
    sums = stored.get("checksums", {})
    told += [f"{name} is another" for name in sorted(checks) if name in sums and sums[name] != checks[name]]
    return told


def _has_bank(method: str) -> bool:
    return METHODS[method].needs_bank


def few_split(data: Path, task: str, language: str) -> str | None:
    """Where a target's examples come from, never its test file: its training data, else its dev set."""
    there = (split for split in ("few", "train", "dev") if checksums.labelled(data, task, language, split) is not None)
    return next(there, None)


def _named(place: str) -> str:
    """A path without its folders: where a file lies on this machine is not part of a run."""
    return ",".join(Path(part).name if "{lang}" not in part else part for part in place.split(","))
