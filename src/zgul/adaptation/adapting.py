"""Adapt a shipped tagger to one language: `zgul.adapt`, which is what ``zgul adapt`` calls.

Raw text goes through rounds of training (`zgul.adaptation.rounds`): a masked-LM head alone, which measures how well the
tagger reads the text; then the student learns to guess masked pieces and, from noisy copies, the soft labels of the
shipped tagger. Further rounds learn from the student's own soft labels. Labelled sentences are learnt last. A step must
show that it helps, else it is undone. The result is a small delta (`zgul.tagging.delta`).
"""

import hashlib
import json
import math
import re
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from zgul.adaptation import judging
from zgul.adaptation.raw_text import RawText, read_text, unfinished
from zgul.adaptation.rounds import Lesson, Plan, Round
from zgul.adaptation.student import Student, one_hot
from zgul.corpora.data_folder import DataFolder, read_labelled, source_split
from zgul.corpora.sentence import Sentence, check_task
from zgul.devices import find_device
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import atomic_write
from zgul.languages import Language, assign_group, find
from zgul.options import Options, option
from zgul.progress import Report, silent
from zgul.tagger import Tagger
from zgul.tagging.delta import (
    NOTE,
    TENSORS,
    Delta,
    apply_delta,
    base_checksum,
    base_folder,
    is_delta,
    load_delta,
    save_delta,
)
from zgul.tagging.loading import load_named
from zgul.tagging.serving import adapted_names, serving
from zgul.tagging.text_tagger import check_script
from zgul.tensors import load_tensors, save_tensors
from zgul.training import distributed
from zgul.training.config import NoiseConfig
from zgul.training.labelled_data import sample

WORK = "work"  # folder inside the output, for what a continued run needs
LOCK = ".lock"  # file inside the output, which the run that works there holds
LEAST = 6  # labelled sentences; with fewer, nothing can be left out that tells anything
READY = 0.9  # share of the budget for training; the rest is for reading, measuring and saving
SHORT = 0.5  # share of the planned steps: the verdict tells of fewer
_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")
_CPU = Path("/proc/cpuinfo")
_UNITS = {"": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0}
Labelled = str | Path | Sequence[Sentence]  # a file, or sentences


@dataclass(frozen=True)
class AdaptConfig(Options):
    """The recipe. 0 stands for what suits the device (`DEFAULTS`). docs/adapt.md says how the defaults were chosen."""

    sentences: int = option(5000, "Sentences of raw text that are used, sampled evenly.", least=1)
    epochs: int = option(0, "Times that a round reads the text [default: 3, on a GPU 8].", least=0)
    rounds: int = option(1, "Rounds of self-training.", least=1, most=5)
    masked: float = option(1.0, "Weight of masked pieces in the first round; 0: none.", least=0)
    noise: float = option(0.5, "Share of the sentences that get spelling noise.", least=0, most=1)
    ciphers: float = option(
        0.0, "Share of the sentences in which some letters are always replaced by others.", least=0, most=1
    )
    unfinished: float = option(
        0.2, "Share of the sentences that are learnt without the punctuation at their end.", least=0, most=1
    )
    batch: int = option(0, "Sentences in a batch of raw text [default: 16, on a GPU 64].", least=0)
    lr: float = option(0.0, "Learning rate for raw text [default: 5e-4, on a GPU 1e-3].", least=0)
    rank: int = option(8, "Rank of the updates of the encoder.", least=1, most=64)
    adapter: bool = option(True, "Give the language an adapter of its own in the bank, if there is raw text.")
    few_epochs: int = option(12, "Times that the labelled sentences are read.", least=1)
    few_lr: float = option(5e-4, "Learning rate for labelled sentences.", above=0)
    seed: int = option(0, "Random seed: sample, order, noise, masks.", least=0, below=2**32)

    def on(self, device: torch.device) -> "AdaptConfig":
        """The recipe with the defaults of a device."""
        defaults = DEFAULTS[device.type != "cpu"]
        return replace(self, **{name: getattr(self, name) or value for name, value in defaults.items()})


DEFAULTS: tuple[dict[str, Any], dict[str, Any]] = (  # on a CPU, where larger ones would take hours, and on a GPU
    {"epochs": 3, "batch": 16, "lr": 5e-4},
    {"epochs": 8, "batch": 64, "lr": 1e-3},
)


@dataclass(frozen=True)
class Step:
    """One step of adapting: what it measured, and whether its result was kept."""

    name: str
    kept: bool
    figures: dict[str, float]
    reason: str


@dataclass
class Adaptation:
    """What `adapt` did, and whether it is worth it."""

    language: str
    task: str
    base: str  # the tagger that it starts from
    shipped: str  # the tagger that it must beat: what `zgul tag` takes for the language
    output: str
    text: dict[str, Any] = field(default_factory=dict)  # sentences read, kept, dropped
    labelled: int = 0  # sentences
    fitted: float = 1.0  # share of the planned steps of raw text that the budget left, in the round with the fewest
    steps: list[Step] = field(default_factory=list)
    changed: float = 0.0  # share of the words of held-out text whose tag changed, in percent
    examples: list[judging.Change] = field(default_factory=list)
    dev_before: float | None = None  # F1 on --dev, of `shipped`
    dev_after: float | None = None
    megabytes: float = 0.0
    seconds: float = 0.0

    @property
    def worth_it(self) -> bool:
        """Whether a step was kept. If not, the result tags like the tagger that it starts from."""
        return any(step.kept for step in self.steps)

    @property
    def verdict(self) -> str:
        few = f"Only {100 * self.fitted:.2g}% of the planned steps fitted into the budget"
        return self._advice + (f" {few}; a larger --budget may help more." if self.fitted < SHORT else "")

    @property
    def _advice(self) -> str:
        if not self.worth_it:
            same = "it" if self.shipped == self.base else f"{self.base}, which it starts from"
            return f"No step helped. Use the shipped tagger {self.shipped}; the folder tags exactly like {same}."
        before, after, labels = self._judged()
        if before is not None and after is not None and after < before:
            return f"By {labels} the result is worse than {self.shipped}. Use {self.shipped}."
        unsure = "" if labels else " Without labels nobody can be sure: look at the changed words, or give --dev."
        if unsure and self.shipped != self.base:
            unsure = f" {self.shipped} ships, and learnt from other text. Only labels tell which is better: give --dev."
        if unsure and self.task == "ner":
            unsure += " For names, text alone made taggers worse more often than better (docs/adapt.md)."
        return f"Use it: zgul tag --lang {self.language} --model {self.output} FILE.{unsure}"

    def _judged(self) -> tuple[float | None, float | None, str]:
        """F1 of `shipped` and of the result, and the labels that show it. Without labels: nothing."""
        if self.dev_after is not None:
            return self.dev_before, self.dev_after, "your --dev file"
        last = self.steps[-1]
        after = last.figures.get("F1 after" if last.kept else "F1 without labels")
        return last.figures.get("F1 before"), after, "your labelled sentences" if self.labelled else ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"worth_it": self.worth_it, "verdict": self.verdict}


def adapt(
    lang: str | Language,
    *,
    output: str | Path,
    text: str | Path | Sequence[str | Path] = (),
    labelled: Labelled | None = None,
    task: str | None = None,
    data: str | Path | None = None,
    dev: Labelled | None = None,
    model: str | Path | None = None,
    budget: str | float | None = None,
    device: str = "cpu",
    resume: bool = False,
    overwrite: bool = False,
    config: AdaptConfig | None = None,
    report: Report = silent,
) -> Adaptation:
    """Adapt a tagger to a language and write the result, a small folder, to ``output``.

    Give raw ``text`` (files or folders), ``labelled`` sentences, or both. ``data`` is a data folder with labelled
    sentences of the tagger's sources, which are then learnt beside the text. ``dev`` is only scored, before and after.
    ``model`` is the tagger to start from. The default is the shipped one that serves the language: for labels alone the
    adapted one, if there is one. ``budget`` (``"30m"``, or seconds) fits the work to a time. ``resume`` continues.
    """
    started = time.monotonic()
    language, seconds = find(lang), parse_budget(budget)
    files = [text] if isinstance(text, str | Path) else list(text)
    if not files and labelled is None:
        raise ZgulError("Give raw text (--text FILE), labelled sentences (--labelled FILE), or both.")
    folder, place = Path(output), find_device(device)
    config = (config or AdaptConfig()).on(place)
    with _only_run(folder, resume=resume, overwrite=overwrite) as work:
        name, base = _base(language, task, model, str(place), adapted=not files)
        few, judged = _learnt_and_judged(labelled, dev, base, language.code)
        shipped = serving(language, base.task).name if model is None else name
        current = base if shipped == name else load_named(shipped, str(place))
        raw = read_text(files, language.code, config.sentences, seed=config.seed, report=report) if files else None
        if raw is not None:
            check_script(base, raw.train[:200], begun=False)
        gold = _source_sentences(data, base, len(raw.train), config.seed) if data and raw is not None else []
        checksum = base_checksum(base_folder(name))
        settings = [language.code, name, checksum, config.to_dict()]
        _claim(work, settings, [*(raw.train if raw else ()), *gold, *few], overwrite)
        result = Adaptation(language.code, base.task, name, shipped, str(folder), labelled=len(few))
        teaching = _Teaching(base, language.code, config, work, raw, few, seconds * READY, result, report)
        if raw is not None:
            result.text = raw.to_dict()
            teaching.learn_text(gold)
        if few:
            teaching.learn_labels(current)
        tensors = teaching.student.changes() if result.worth_it else {}
        reading = {"strip_marks": base.strip_marks}
        delta = Delta(name, checksum, language.code, base.task, tensors, teaching.student.like, reading)
        if distributed.is_first():
            result.dev_before = judging.score(current, judged) if judged else None
            _finish(folder, delta, base, raw, few, judged, result, started, config)
        distributed.wait()
    return result


class _Teaching:
    """The steps of one adaptation, on one student."""

    def __init__(
        self, base: Tagger, language: str, config: AdaptConfig, work: Path, raw: RawText | None, few: list[Sentence],
        seconds: float, result: Adaptation, report: Report,
    ) -> None:  # fmt: skip
        self.base, self.config, self.work, self.raw, self.few = base, config, work, raw, few
        self.result, self.report, self.ends = result, report, time.monotonic() + seconds
        self.plan = Plan.at(work / "plan.json")
        adapter = config.adapter and raw is not None
        self.student = Student(base, language, rank=config.rank, adapter=adapter, seed=config.seed)
        self.student.use(self.plan.decide("precision", fastest_precision(base.device)))

    def learn(self, lesson: Lesson, share: float = 1.0) -> None:
        """Run a round, or load its result if it was finished before. ``share`` of the time left is for it."""
        done = self.work / f"{lesson.name.replace(' ', '-')}.done.safetensors"
        if done.is_file():
            self.student.restore(load_tensors(done))
            return
        seconds = share * (self.ends - time.monotonic())
        Round(self.student, lesson, self.plan, folder=self.work, seconds=seconds).run(self.report)
        trained = {name: value for name, value in self.student.named_parameters() if value.requires_grad}
        if distributed.is_first():
            save_tensors(done, trained)

    def learn_text(self, gold: list[Sentence]) -> None:
        """Masked pieces and soft labels of raw text, beside labelled sentences of the sources if there are any."""
        assert self.raw is not None
        student, config, raw, few = self.student, self.config, self.raw, len(self.few) > 0
        before = student.trained()
        teacher = Student(self.base, student.language, rank=0, adapter=False)
        teacher.use(student.precision)
        train = unfinished(raw.train, config.unfinished, config.seed)
        sentences, soft = [*train, *gold], self._soft_labels(teacher, train)
        known = one_hot(gold, self.base.labels)
        noise, figures = NoiseConfig(sentences=config.noise, ciphers=config.ciphers), dict[str, float]()
        settings: dict[str, Any] = {"epochs": config.epochs, "lr": config.lr, "batch": config.batch, "noise": noise}
        held = student.encode(raw.held_out)
        if config.masked:
            student.add_masked_head(student.encode(train))
            steady: dict[str, Any] = {"masked": 1.0, "tags": False, "batch": config.batch, "seed": config.seed}
            head = Lesson("masked-LM head", train, soft, 1, 2e-3, **steady)
            self.learn(head, 0.2)
            figures["masked accuracy before"] = self.plan.decide("masked before", student.masked_accuracy(held))
        for number in range(config.rounds):
            masked = config.masked if number == 0 else 0.0
            seed = config.seed + number
            targets = torch.cat([soft, known])
            lesson = Lesson(f"round {number + 1}", sentences, targets, masked=masked, seed=seed, **settings)
            self.learn(lesson, 1 / (config.rounds - number + few))
            self.result.fitted = min(self.result.fitted, self.plan.values.get(f"share: {lesson.name}", 1.0))
            if masked:
                figures["masked accuracy after"] = self.plan.decide("masked after", student.masked_accuracy(held))
            if number + 1 < config.rounds:
                soft = distributed.of_first(student.probabilities(train))
        checked = judging.check_held_out(teacher, student, raw.held_out, config.seed)
        self._keep("raw text", before, checked, figures)

    def _soft_labels(self, teacher: Student, sentences: Sequence[Sentence]) -> Tensor:
        """The teacher's label probabilities, computed once."""
        path = self.work / "soft-labels.safetensors"
        found = path.is_file()
        soft = distributed.of_first(load_tensors(path)["soft"] if found else teacher.probabilities(sentences))
        if not found and distributed.is_first():
            save_tensors(path, {"soft": soft})
        return soft

    def _keep(self, name: str, before: dict[str, Tensor], checked: judging.Checked, figures: dict[str, float]) -> None:
        """Keep what was learnt from text, or undo it. Labelled sentences decide if there are any."""
        kept, reason = checked.kept, checked.reason
        if figures and figures["masked accuracy after"] <= figures["masked accuracy before"]:
            kept, reason = False, "it does not guess masked pieces better than before"
        if self.few:
            old = Student(self.base, self.student.language, rank=0, adapter=False)
            figures |= {"F1 before": judging.score(old, self.few), "F1 after": judging.score(self.student, self.few)}
            kept = figures["F1 after"] >= figures["F1 before"]
            reason = f"the labelled sentences, not learnt from so far, are tagged {'no worse' if kept else 'worse'}"
        kept = distributed.of_first(kept)
        self.result.steps.append(Step(name, kept, figures | checked.figures, reason))
        if not kept:
            self.student.restore(before)

    def learn_labels(self, current: Tagger) -> None:
        """Labelled sentences: folds show whether they beat the current tagger; then all of them are learnt."""
        student, config, few = self.student, self.config, self.few
        start = student.trained()
        settings: dict[str, Any] = {"epochs": config.few_epochs, "lr": config.few_lr, "batch": 8, "seed": config.seed}
        figures = judging.cross_validate(current, student, few, self.learn, settings)
        student.restore(start)
        kept = distributed.of_first(figures["F1 after"] > max(figures["F1 before"], figures["F1 without labels"]))
        if kept:
            self.learn(Lesson("labelled sentences", few, one_hot(few, self.base.labels), **settings))
        how = f"sentences that were left out of training are tagged {'better' if kept else 'no better'}"
        self.result.steps.append(Step("labelled sentences", kept, figures, how))


def parse_budget(budget: str | float | None) -> float:
    """Seconds of a budget such as ``30m``, ``1h`` or ``90s``; a plain number in text is minutes."""
    if budget is None:
        return math.inf
    if isinstance(budget, int | float):
        seconds = float(budget)
    elif match := _BUDGET.fullmatch(budget.strip().lower()):
        seconds = float(match[1]) * _UNITS[match[2]]
    else:
        raise ZgulError(f"The budget {budget!r} is not a time. Write 30m, 1h or 90s.")
    if not 0 < seconds < math.inf:
        raise ZgulError("The budget must be more than no time.")
    return seconds


def fastest_precision(device: torch.device) -> str:
    """The precision to train in. bfloat16 is twice as fast, but only on a CPU that has instructions for it."""
    flags = _CPU.read_text("utf-8", "replace") if _CPU.is_file() else ""  # the same on every run, unlike a timing
    return "bfloat16" if device.type != "cpu" or "avx512_bf16" in flags or "amx_bf16" in flags else "float32"


@contextmanager
def _only_run(folder: Path, *, resume: bool, overwrite: bool) -> Iterator[Path]:
    """Check the output, and refuse other runs there until the end. A process that is killed loses its lock, too."""
    if folder.exists() and not folder.is_dir():
        raise ZgulError(f"{folder} is a file. The result is a folder.")
    made, problem = [path for path in (folder, *folder.parents) if not path.exists()], ""
    lock = FileLock(folder / LOCK)
    if distributed.is_first():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout:
            problem = f"Another run is adapting in {folder}. Wait for its end, or choose another --output."
        except OSError as error:
            problem = f"{folder} cannot be written ({error.strerror}). Choose another --output."
    if problem := distributed.of_first(problem):
        raise ZgulError(problem)
    try:
        work = check_output(folder, resume=resume, overwrite=overwrite)
        distributed.wait()  # until all processes have looked at the folder
        yield work
    finally:
        if distributed.is_first():
            with suppress(OSError):  # a folder that is not empty stays
                (folder / LOCK).unlink(missing_ok=True)
                for path in made:
                    path.rmdir()
            lock.release()


def check_output(folder: Path, *, resume: bool, overwrite: bool) -> Path:
    """Refuse to overwrite a finished result or another run, and return the folder for work in progress."""
    work = folder / WORK
    if resume and overwrite:
        raise ZgulError("--resume continues what is there, and --overwrite replaces it. Give only one of them.")
    if overwrite:
        return work
    if is_delta(folder):
        shutil.rmtree(work, ignore_errors=True)  # of a run that was killed after its last act
        done = "is adapted to the end already" if resume else "holds a finished result"
        raise ZgulError(f"{folder} {done}. Choose another --output, or replace it with --overwrite.")
    if work.is_dir() and not resume:
        raise ZgulError(f"{folder} holds an unfinished run. Continue it with --resume, or replace it with --overwrite.")
    if folder.is_dir() and not work.is_dir() and any(path.name != LOCK for path in folder.iterdir()):
        raise ZgulError(f"{folder} holds other files. Choose another --output.")
    if resume and not work.is_dir():
        warnings.warn(f"{folder} has nothing to continue. Adapting starts anew.", ZgulWarning, stacklevel=5)
    return work


def _claim(work: Path, settings: list[Any], sentences: list[Sentence], overwrite: bool) -> None:
    """Note what the work in progress belongs to. Refuse to continue with other settings, text or labels."""
    if overwrite and distributed.is_first():  # only now, because all inputs were found to be fit
        for path in (work.parent / NOTE, work.parent / TENSORS):
            path.unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for sentence in sentences:
        digest.update(repr((sentence.words, sentence.tags)).encode())
    distributed.check_same(digest.hexdigest())
    work.mkdir(parents=True, exist_ok=True)
    path = work / "request.txt"
    if path.is_file() and path.read_text("utf-8") != digest.hexdigest():
        advice = "Give what you gave before, or start anew with --overwrite"
        raise ZgulError(f"{work.parent} was begun with other options, text or labelled sentences. {advice}.")
    if distributed.is_first():
        with atomic_write(path) as file:
            file.write(digest.hexdigest())


def _base(lang: Language, task: str | None, model: str | Path | None, device: str, adapted: bool) -> tuple[str, Tagger]:
    """The name of the tagger to start from, and the tagger."""
    if task is not None:
        check_task(task)
    if model is not None and (is_delta(model) or str(model) in adapted_names()):
        raise ZgulError(f"{model} was adapted already. Start from a tagger, with all the text and labels at once.")
    if model is None:
        group = assign_group(lang)
        served = serving(lang, task or (group.task if group else "pos"), adapted=adapted)
        if served.warning:
            warnings.warn(served.warning, ZgulWarning, stacklevel=3)
        return served.name, load_named(served.name, device)
    tagger = load_named(str(model), device)
    if task not in (None, tagger.task):
        raise ZgulError(f"{model} is a tagger for {tagger.task}, not for {task}. Leave the task out.")
    local = (Path(model) / "config.json").is_file()
    return (str(Path(model).resolve()) if local else str(model)), tagger


def _labelled(given: Labelled | None, base: Tagger, lang: str, least: int = 1) -> list[Sentence]:
    """Labelled sentences of a file, or those given. They must have labels that the tagger knows.

    If they are learnt, a repeated one is taken once: it could be learnt and judged in the same fold.
    """
    if given is None:
        return []
    read = read_labelled(given, base.task, lang) if isinstance(given, str | Path) else list(given)
    sentences = [Sentence(one.words, one.tags, lang) for one in read if one.tags is not None]
    if least > 1:
        sentences = list({tuple(sentence.words): sentence for sentence in sentences}.values())
    if len(sentences) < least:
        raise ZgulError(f"At least {least} different labelled sentences are needed. Here are {len(sentences)}.")
    if not any(tag in base.labels for sentence in sentences for tag in sentence.tags or ()):
        raise ZgulError(f"The labelled sentences have no tag that the tagger knows ({', '.join(base.labels)}).")
    return sentences


def _learnt_and_judged(
    labelled: str | Path | Sequence[Sentence] | None,
    dev: str | Path | Sequence[Sentence] | None,
    base: Tagger,
    lang: str,
) -> tuple[list[Sentence], list[Sentence]]:
    """The labelled sentences to learn from, and those that are only scored."""
    few, judged = _labelled(labelled, base, lang, LEAST), _labelled(dev, base, lang)
    if twice := len({tuple(one.words) for one in few} & {tuple(one.words) for one in judged}):
        problem = f"{twice} sentences are in --labelled and in --dev. They are learnt, so the score after is too high."
        warnings.warn(problem, ZgulWarning, stacklevel=3)
    return few, judged


def _source_sentences(data: str | Path, base: Tagger, most: int, seed: int) -> list[Sentence]:
    """Labelled sentences of the tagger's sources, as many together as there are sentences of raw text."""
    training, found, sources = dict(base.about.get("training", {})), list[Sentence](), base.parts.sources
    for code in sources:
        split = source_split(training.get("group", ""), code, "train")
        own = DataFolder(data).sentences(base.task, code, split)
        used = {tag for sentence in own for tag in sentence.tags or ()}
        if training.get("label_set_per_corpus") and not set(base.labels) <= used:
            continue  # O in this corpus may be an entity of a kind that it does not annotate
        found += sample(own, max(1, most // len(sources)), seed)
    return found


def _finish(
    folder: Path, delta: Delta, base: Tagger, raw: RawText | None, few: list[Sentence], dev: list[Sentence],
    result: Adaptation, started: float, config: AdaptConfig,
) -> None:  # fmt: skip
    """Measure the tagger as it will be on disk, save the delta, and remove the work in progress."""
    trial = folder / WORK / "result"
    save_delta(trial, delta)
    adapted = apply_delta(base, load_delta(trial))
    shown = raw.held_out if raw is not None else few
    result.changed, result.examples = judging.changed_words(shown, base, adapted)
    if dev:
        result.dev_after = judging.score(adapted, dev)
    size = (trial / TENSORS).stat().st_size if (trial / TENSORS).is_file() else 0
    result.megabytes, result.seconds = size / 1e6, time.monotonic() - started
    about = dict(delta.about) | result.to_dict() | {"config": config.to_dict()}
    private = ("output", "verdict", "examples")  # the examples quote the text
    save_delta(folder, replace(delta, about={key: value for key, value in about.items() if key not in private}))
    shutil.rmtree(folder / WORK, ignore_errors=True)
