"""The paper's evaluation as a list of runs: one trained model each, with every inference that is made with it.

A run is identified by a hash of everything that can change its result: configuration, rows, checksums of the data, the
encoder, the adapters and the code, and the runs it starts from. ``docs/experiments.md`` describes the parts.
"""

import hashlib
import json
import os
import tomllib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

from zgul.corpora.data_folder import DataFolder, source_split
from zgul.corpora.sentence import Sentence
from zgul.devices import find_device
from zgul.errors import ZgulError, ZgulWarning
from zgul.languages import GROUPS, find
from zgul.methods import find_method
from zgul.options import Options, option
from zgul.paper import provenance
from zgul.paper.frame import choose_tuned, encoder_name
from zgul.paper.numbers import GRID
from zgul.paper.rows import FEW_SHOT, ROWS, TARGET_ADAPTER, TARGET_ENCODER, TRAINED, Row, rows_of
from zgul.paper.store import StoredRun
from zgul.training.config import PRECISIONS, TrainingConfig
from zgul.training.em_tuning import Grid

TEXT_RUN = "text"  # the "method" of a run that reads unlabelled text
REDUCTION, OTHER_REDUCTION = GRID["Reduction Factor"]  # the paper tries both
WHAT, SMALLER, FEW, TEXT = "What to run", "Training", "Few-shot", "Unlabelled text"  # headings of the options
_TEXTS = {name: about.help for name, about, _ in TrainingConfig.declared()}  # the help of options that mean the same
EM_HELP = "Choose EM settings on the dev set of the most related source, or on that source left out (loso)."
_FILE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
VARIANTS: dict[str, dict[str, Any]] = _FILE["variants"]  # changes of the configuration of ZGUL
FEW_SPLITS = ("few", "train", "dev")  # where a target's examples come from, never its test file

_COPIED = ("epochs", "batch_size", "accumulate", "limit", "em_by", "em_sentences", "precision")  # from the protocol

Settings = dict[tuple[str, str], tuple[float, float | None]]  # task and method -> learning rate, reduction factor
Values = dict[str, Any]  # by name
RunKey = tuple[str, str, str, int]  # part, group, method and seed


@dataclass(frozen=True)
class Inputs(Options):
    """What all runs start from. Paths are not part of a run; the contents of the files are."""

    data: str = option("", "Data folder with TASK/LANG/SPLIT.tsv and text/.", panel=WHAT, metavar="DIR")
    encoder: str = option("embedded", _TEXTS["encoder"], panel=WHAT)
    adapters: str = option("shipped", _TEXTS["adapters"], panel=WHAT)
    head: str = option("", "File with a masked-LM head for unlabelled text [default: trained].", panel=WHAT)
    device: str = option("auto", _TEXTS["device"], metavar="cpu|cuda|mps|auto", panel=WHAT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not os.path.isdir(self.data or "."):  # noqa: PTH112  # pathlib raises if the name is too long
            raise ZgulError(f"{self.data or '--data'}: no such folder. See: zgul data list")

    @property
    def device_kind(self) -> str:
        """The kind of the device, which may be another machine's: cpu, cuda or mps."""
        return find_device("auto").type if self.device == "auto" else self.device.partition(":")[0]


@dataclass(frozen=True)
class Protocol(Options):
    """The options of the experiments. They change the results."""

    seeds: tuple[int, ...] = option((0, 1, 2), "Random seeds, separated by commas.", panel=WHAT)
    groups: tuple[str, ...] = option(
        tuple(GROUPS), "Language groups.", choices=tuple(GROUPS), panel=WHAT, metavar="NAMES"
    )
    tune: bool = option(True, "Choose rate and reduction of each method on the source dev sets first.", panel=WHAT)
    limit: int = option(0, _TEXTS["limit"], least=0, panel=SMALLER)
    dev_limit: int = option(0, "Dev sentences of each source [default: all].", least=0, panel=SMALLER)
    test_limit: int = option(0, "Test sentences of each target [default: all].", least=0, panel=SMALLER)
    epochs: int = option(0, _TEXTS["epochs"], least=0, panel=SMALLER)
    lr: float = option(0.0, "Learning rate of all methods [default: tuned].", least=0, panel=SMALLER)
    batch_size: int = option(32, _TEXTS["batch_size"], least=1, panel=SMALLER)
    accumulate: int = option(4, _TEXTS["accumulate"], least=1, panel=SMALLER)
    em_by: str = option("source", EM_HELP, choices=("source", "loso"), panel=SMALLER)
    em_sentences: int = option(300, _TEXTS["em_sentences"], least=0, panel=SMALLER)
    em_steps: tuple[int, ...] = option(Grid().steps, "Numbers of EM steps to try, besides 0.", least=1, panel=SMALLER)
    em_rates: tuple[float, ...] = option(Grid().rates, "EM learning rates to try.", above=0, panel=SMALLER)
    precision: str = option("auto", _TEXTS["precision"], choices=PRECISIONS, panel=SMALLER)
    examples: tuple[int, ...] = option((0, 10, 30, 70, 100), "Numbers of examples.", least=0, panel=FEW)
    few_epochs: int = option(10, "Epochs on the examples.", least=1, panel=FEW)
    few_batch: int = option(8, _TEXTS["batch_size"], least=1, panel=FEW)
    few_lr: float = option(0.0, "Learning rate [default: the method's own].", least=0, panel=FEW)
    shares: tuple[float, ...] = option((0.25, 0.5, 1.0), "Shares of the text.", above=0, most=1, panel=TEXT)
    text_languages: tuple[str, ...] = option((), "Targets whose text is read [default: all with text].", panel=TEXT)
    text_lines: int = option(0, "Lines of text of each target [default: all].", least=0, panel=TEXT)
    text_steps: int = option(2000, "Masked-LM steps for each of head, adapter and encoder.", least=1, panel=TEXT)
    text_blocks: int = option(16, "Blocks of 128 pieces in each of these steps.", least=1, panel=TEXT)
    text_lr: float = option(1e-3, "Learning rate of head and adapter on text.", above=0, panel=TEXT)
    encoder_lr: float = option(5e-5, "Learning rate of the encoder on text.", above=0, panel=TEXT)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, what in {"seeds": "seed", "em_steps": "number of EM steps", "em_rates": "EM learning rate"}.items():
            if not getattr(self, name):
                raise ZgulError(f"Give at least one {what}.")

    @property
    def tunes(self) -> bool:
        return self.tune and not self.lr


def rates(method: str, encoder: str) -> Any:
    """The learning rates for a method on an encoder: the "default", and the "grid" that is tried."""
    kind = "whole encoder" if method in _FILE["whole-encoder"] else "adapters"
    if encoder_name(encoder) == "embedded":
        return _FILE["rates"][kind]
    grid = GRID["SFT Learning Rate" if kind == "whole encoder" else "Learning Rate"]  # the paper's
    return {"grid": grid, "default": max(grid)}


def chosen_protocol(given: Mapping[str, object], quick: bool = False) -> Protocol:
    """The protocol with the ``given`` options. ``quick`` runs all methods on little data (``quick.toml``)."""
    base = tomllib.loads(Path(__file__).with_name("quick.toml").read_text(encoding="utf-8")) if quick else {}
    return Protocol.from_dict({**base, **given})


@dataclass(frozen=True)
class Run:
    """One trained model and the inferences that are made with it."""

    part: str
    group: str
    method: str
    seed: int
    config: dict[str, Any]  # TrainingConfig without data and device; encoder and adapters by name alone
    rows: list[dict[str, Any]]  # inferences with this model: see `Row.inference`
    languages: list[str]
    needs: list[str] = field(default_factory=list)  # hashes of the runs that must be done first
    extra: dict[str, Any] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)  # of code, data, encoder and adapters

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    @property
    def name(self) -> str:
        """For people: "few-shot germanic zgul seed 0, fo, 10 examples"."""
        extra = self.extra | ({"share": 100 * self.extra["share"]} if "share" in self.extra else {})
        parts = [form.format(extra[key]) for key, form in _FILE["names"].items() if extra.get(key) is not None]
        return ", ".join([f"{self.part} {self.group} {self.method} seed {self.seed}", *parts])

    def training(self) -> TrainingConfig:
        return TrainingConfig.from_dict(self.config)

    def stored(self) -> StoredRun:
        return StoredRun(self.hash, self.part, self.group, self.method, self.seed, self.name, self.config, self.extra)


def tuning_plan(inputs: Inputs, protocol: Protocol, done: Iterable[StoredRun] = (), *, code: str = "") -> list[Run]:
    """The runs that choose learning rates and, once these are ``done``, the reduction factor at the chosen rate."""
    return _Planner(inputs, protocol, code or provenance.of_code(), {}).tuning(done) if protocol.tunes else []


def paper_plan(inputs: Inputs, protocol: Protocol, settings: Settings | None = None, *, code: str = "") -> list[Run]:
    """Every run of the evaluation that the data allows, with tuned ``settings``. ``code`` replaces its checksum."""
    runs = _Planner(inputs, protocol, code or provenance.of_code(), settings or {}).runs()
    if not runs:
        raise ZgulError(f"{inputs.data} has the data of no group. See: zgul data list")
    return runs


def tuned_settings(done: Iterable[StoredRun]) -> Settings:
    """The settings that finished tuning runs choose."""
    return {(tuned.task, tuned.method): tuned.chosen for tuned in choose_tuned(done)}


def select_runs(runs: list[Run], only: Sequence[str]) -> list[Run]:
    """The runs that match, and those that they need. Tuning runs always belong to them: the others depend on these.

    A pattern is a part, group, method or target, or several of them with slashes, which must all fit.
    """
    patterns = [set(pattern.strip("/").split("/")) - {"*"} for item in only for pattern in item.split(",") if pattern]
    if not patterns:
        return runs
    words = {run.hash: {run.part, run.group, run.method, run.extra.get("language", run.part)} for run in runs}
    known = set().union(*words.values())
    if unknown := sorted(set().union(*patterns) - known):
        raise ZgulError(f"--only {unknown[0]}: no run fits. Choose from: {', '.join(sorted(known))}.")
    chosen = {run for run, own in words.items() if "tuning" in own or any(pattern <= own for pattern in patterns)}
    needs = {run.hash: run.needs for run in runs}
    while needed := {need for run in chosen for need in needs[run]} - chosen:
        chosen |= needed
    return [run for run in runs if run.hash in chosen]


class _Planner:
    """Expands a protocol into runs."""

    def __init__(self, inputs: Inputs, protocol: Protocol, code: str, settings: Settings) -> None:
        self.inputs, self.protocol, self.settings, self.data = inputs, protocol, settings, DataFolder(inputs.data)
        self.common = {"code": code, "encoder": provenance.of_encoder(inputs.encoder), "device": inputs.device_kind}
        self.common |= {name: str(getattr(protocol, name)) for name in ("test_limit", "dev_limit")}
        self.common["em"] = json.dumps([protocol.em_steps, protocol.em_rates])
        self.adapters = provenance.of_adapters(inputs.adapters)

    def runs(self) -> list[Run]:
        runs: list[Run] = []
        for group in self._groups():
            languages = [code for code in GROUPS[group].targets if self._has(code, group, code, "test")]
            trained: dict[tuple[str, int], Run] = {}
            for seed in self.protocol.seeds:
                for method in TRAINED:
                    rows = rows_of(method, "zero-shot", "em")
                    trained[method, seed] = self._trained(("zero-shot", group, method, seed), languages, rows)
                for name, changes in VARIANTS.items():
                    place, rows = ("variants", group, "zgul", seed), rows_of("zgul", "zero-shot")
                    runs.append(self._trained(place, languages, rows, changes, extra={"variant": name}))
            runs += trained.values()
            for base, language in product(trained.values(), languages):
                runs += self._few_shot(base, language) if base.method in FEW_SHOT else []
            for language, share in product(languages, self.protocol.shares):
                runs += self._unlabelled(group, language, share, trained)
        return list({run.hash: run for run in runs}.values())

    def tuning(self, done: Iterable[StoredRun]) -> list[Run]:
        there = self._groups()
        groups = [group for pair in _FILE["tuning-groups"] for group in [g for g in pair if g in there][:1]]
        first = [
            self._tuning_run(group, method, rate, REDUCTION if find_method(method).needs_bank else None)
            for group, method in product(groups, TRAINED)
            for rate in rates(method, self.inputs.encoder)["grid"]
        ]
        tried = [run for run in done if run.hash in {run.hash for run in first}]
        if len(tried) < len({run.hash for run in first}):
            return first
        chosen = tuned_settings(tried)
        return first + [
            self._tuning_run(group, method, chosen[GROUPS[group].task, method][0], OTHER_REDUCTION)
            for group, method in product(groups, TRAINED)
            if find_method(method).needs_bank
        ]

    def _tuning_run(self, group: str, method: str, rate: float, reduction: float | None) -> Run:
        changes: Values = {"lr": rate} | ({"options": {"reduction": reduction}} if reduction else {})
        extra = {"rate": rate} | ({"reduction": reduction} if reduction else {})
        return self._trained(("tuning", group, method, min(self.protocol.seeds)), [], [], changes, extra=extra)

    def _trained(
        self, place: RunKey, languages: list[str], rows: Sequence[Row], changes: Values | None = None, **more: Any
    ) -> Run:
        """A run that trains a model. ``changes`` are of the configuration, and ``more`` are fields of the run."""
        _, group, method, seed = place
        config = self._config(group, method, seed, changes or {})
        sums = self.common | self._labelled(group, config, languages, rows)
        if find_method(method).needs_bank:
            sums["adapters"] = self.adapters if config["adapters"] != "new" else "new"
        return Run(*place, config, [row.inference() for row in rows], languages, checksums=sums, **more)

    def _config(self, group: str, method: str, seed: int, changes: Values) -> Values:
        task, default = GROUPS[group].task, rates(method, self.inputs.encoder)["default"]
        rate, reduction = self.settings.get((task, method), (self.protocol.lr or default, None))
        adapters = _without_folders(self.inputs.adapters) if find_method(method).needs_bank else "none"
        values = {name: getattr(self.protocol, name) for name in _COPIED}
        values |= {"method": method, "group": group, "task": task, "sources": GROUPS[group].sources, "seed": seed}
        values |= {"encoder": _without_folders(self.inputs.encoder), "adapters": adapters, "lr": rate, **changes}
        values["options"] = {"reduction": reduction or REDUCTION} | changes.get("options", {})
        plain = TrainingConfig.from_dict(values).to_dict()
        return {name: value for name, value in plain.items() if name not in ("data", "device")}

    def _labelled(self, group: str, config: Values, languages: list[str], rows: Sequence[Row]) -> dict[str, str]:
        """Checksums of the labelled files that a run reads."""
        task = config["task"]
        trained = ["en"] if find_method(config["method"]).english_only else config["sources"]
        read = [(source, source_split(group, source, "train")) for source in trained]
        read += [(source, source_split(group, source, "dev")) for source in config["sources"]]
        read += [(language, "test") for language in languages]
        read += [(language, "dev") for language in languages if any(row.em == "target" for row in rows)]
        files = {f"{task}/{code}/{split}": self.data.labelled_file(task, code, split) for code, split in read}
        return {name: provenance.of_file(path) for name, path in files.items() if path is not None}

    def _groups(self) -> list[str]:
        """The groups whose sources all have data."""
        there = []
        for name in self.protocol.groups:
            files = product(GROUPS[name].sources, ("train", "dev"))
            if all(self._has(name, name, code, source_split(name, code, split)) for code, split in files):
                there.append(name)
        return there

    def _has(self, left_out: str, group: str, language: str, split: str) -> bool:
        """Whether this file exists. If not, a warning says what is left out."""
        task = GROUPS[group].task
        if self.data.labelled_file(task, language, split) is not None:
            return True
        message = f"{left_out} is left out: {self.inputs.data} has no {task}/{language}/{split}"
        warnings.warn(message, ZgulWarning, stacklevel=2)
        return False

    def _few_shot(self, base: Run, language: str) -> list[Run]:
        """Runs that train a model further on examples of a target. Draw d starts from the model of seed d."""
        task = str(base.config["task"])
        files = {split: self.data.labelled_file(task, language, split) for split in FEW_SPLITS}
        split, path = next(((split, path) for split, path in files.items() if path is not None), ("", None))
        if path is None:
            return []
        try:
            there = len(_read_examples(self.inputs.data, task, language, split))
        except ZgulError:  # the runs that read the file will report the problem
            there = max(self.protocol.examples, default=0)
        config = base.config | {"epochs": self.protocol.few_epochs, "batch_size": self.protocol.few_batch}
        config |= {"accumulate": 1, "select": "last", "lr": self.protocol.few_lr or base.config["lr"]}
        rows = [row.inference() | {"weights": False} for row in rows_of(base.method, "zero-shot")]
        sums = base.checksums | {f"{task}/{language}/{split}": provenance.of_file(path)}
        extra = {"language": language, "draw": base.seed, "split": split}
        few = replace(base, part="few-shot", config=config, rows=rows, languages=[language], checksums=sums)
        sizes = [size for size in self.protocol.examples if size <= there]
        return [replace(few, needs=[base.hash], extra={**extra, "examples": size}) for size in sizes]

    def _unlabelled(self, group: str, language: str, share: float, trained: dict[tuple[str, int], Run]) -> list[Run]:
        wanted = [find(code).code for code in self.protocol.text_languages]
        texts = self.data.text_files(language)
        if not texts or (wanted and language not in wanted):
            return []
        text = self._reading(group, language, share, texts)
        runs = [text]
        for seed, row in product(self.protocol.seeds, ROWS):
            if not row.needs or (share < 1.0 and " w/o " in row.title):
                continue
            extra: Values = {"language": language, "share": share, "variant": row.title}
            extra |= {"adapter": TARGET_ADAPTER in row.needs, "encoder": TARGET_ENCODER in row.needs}
            more: Values = {"extra": extra, "needs": [text.hash]}
            if row.strategy == "tgt":  # training never uses the target's adapter, so the model is the zero-shot one
                base = trained[row.method, seed]
                more |= {"needs": [base.hash, text.hash], "rows": [row.inference()], "languages": [language]}
                runs.append(replace(base, part="unlabelled", **more))
            else:
                changes = {"extra_adapters": [language]} if extra["adapter"] else {}
                place = ("unlabelled", group, row.method, seed)
                runs.append(self._trained(place, [language], [row], changes, **more))
        return runs

    def _reading(self, group: str, language: str, share: float, texts: Iterable[Path]) -> Run:
        """Masked-LM training on a share of a target's text: an adapter for it, and the whole encoder."""
        config = {name: getattr(self.protocol, f"text_{name}") for name in ("lines", "steps", "blocks", "lr")}
        config |= {"encoder": _without_folders(self.inputs.encoder), "encoder_lr": self.protocol.encoder_lr}
        sums = {name: self.common[name] for name in ("code", "encoder", "device")}
        sums["head"] = provenance.of_file(Path(self.inputs.head)) if self.inputs.head else ""
        sums |= {f"text/{path.name}": provenance.of_file(path) for path in texts}
        extra = {"language": language, "share": share}
        return Run("unlabelled", group, TEXT_RUN, 0, config, [], [], [], extra, sums)


def differences(protocol: Protocol, checks: dict[str, str], stored: dict[str, Any], parts: Iterable[str]) -> list[str]:
    """How these runs would differ from stored runs of these parts: in settings, data, encoder or adapters."""
    parts, before, changed = set(parts), stored.get("protocol", {}), []
    for name, value in protocol.to_dict().items():
        part = next((part for start, part in _FILE["options-of-part"].items() if name.startswith(start)), None)
        if name not in _FILE["extendable"] and name in before and before[name] != value and part in {None, *parts}:
            changed.append(f"{name} was {before[name]} and is {value}")
    sums = stored.get("checksums", {})
    return changed + [f"{name} has changed" for name in sorted(checks) if name in sums and sums[name] != checks[name]]


@cache
def _read_examples(data: str, task: str, language: str, split: str) -> list[Sentence]:
    return DataFolder(data).sentences(task, language, split)


def _without_folders(place: str) -> str:
    """A path without its folders, because the place of a file on this machine is not part of a run."""
    return ",".join(Path(part).name if "{lang}" not in part else part for part in place.split(","))
