"""A training run from its configuration to a saved tagger, and leave-one-source-out."""

import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from zgul import encoders
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import check_places, find_adapters
from zgul.corpora.data_folder import DataFolder, source_split
from zgul.corpora.sentence import Sentence
from zgul.devices import find_device
from zgul.encoders.encoder import Encoder
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import scores
from zgul.files import shipped_folder
from zgul.languages import GROUPS, find, most_related
from zgul.languages.groups import PIVOT
from zgul.methods import find_method
from zgul.options import read_yaml
from zgul.progress import Report, Status, counter, silent, within
from zgul.tagger import Tagger, load_tagger, save_tagger, saved
from zgul.tagger.tagger import UNNAMED
from zgul.training import distributed
from zgul.training.config import EM_BY, TrainingConfig
from zgul.training.em_tuning import EMTable, best_setting, em_strategy, em_table
from zgul.training.labelled_data import load_labelled, sample
from zgul.training.trainer import ANYWHERE, CHECKPOINT, Trainer

CONFIG = "train.yaml"  # the resolved configuration, beside the model
LEAVE_ONE_OUT = "leave_one_out.yaml"  # the same for leave-one-source-out, beside the folders of its taggers
BITS = (32, 16, 9)  # per saved number
MERGED = 9  # the form of shipped taggers: small, see zgul.tagger.saved


@dataclass(frozen=True)
class Saving:
    """How a run treats its output folder."""

    resume: bool = False  # continue from the checkpoint
    overwrite: bool = False  # replace what is there
    save_encoder: bool = False  # put the encoder into the folder, too
    bits: int = 32  # per saved number: 32, 16, or 9 for the small form of shipped taggers


def resolve(config: TrainingConfig) -> TrainingConfig:
    """The configuration with its group's task and sources, and languages as codes. A faulty one is refused."""
    method = find_method(config.method)
    if config.group:
        if config.group not in GROUPS:
            raise ZgulError(f"There is no group {config.group!r}. Choose one of: {', '.join(GROUPS)}.")
        group = GROUPS[config.group]
        config = replace(config, task=group.task, sources=config.sources or group.sources)
    if not config.sources:
        raise ZgulError("Say what to train on: --group germanic, or --task pos --sources en,is,de.")
    for name in ("sources", "targets", "leave_out", "extra_adapters"):
        codes: Any = tuple(dict.fromkeys(find(code).code for code in getattr(config, name)))
        config = replace(config, **{name: codes})
    if foreign := [language for language in config.leave_out if language not in config.sources]:
        raise ZgulError(f"{', '.join(foreign)} cannot be left out: the sources are {', '.join(config.sources)}.")
    if not config.kept_sources or (method.english_only and PIVOT not in config.kept_sources):
        raise ZgulError(f"{method.title} has nothing to train on without {', '.join(config.leave_out) or 'English'}.")
    if not config.data:
        raise ZgulError("Say where the labelled data is: --data DIR (see: zgul data list).")
    if not Path(config.data).is_dir():
        fetch = f" Fetch it with: zgul data fetch --group {config.group} --output {config.data}" if config.group else ""
        raise ZgulError(f"{config.data}: no such folder.{fetch}")
    return config


def new_tagger(
    config: TrainingConfig,
    labels: Sequence[str],
    *,
    encoder: tuple[Encoder, PieceTokenizer] | None = None,
    adapters: Sequence[LanguageAdapter] | None = None,
) -> Tagger:
    """The untrained tagger of a configuration. ``encoder`` and ``adapters`` are used instead of those it names."""
    loaded = encoder or encoders.load(config.encoder)
    torch.manual_seed(config.seed)  # new adapters start with random weights
    if adapters is None and find_method(config.method).needs_bank:
        wanted = list(dict.fromkeys([*config.kept_sources, *config.extra_adapters]))
        adapters = find_adapters(config.adapters, wanted, loaded[0], config.encoder)
    local = Path(config.encoder)
    torch.manual_seed(config.seed)  # again: reading adapters may draw numbers, but not when they are read a second time
    tagger = Tagger.new(
        config.method,
        encoder=loaded,
        task=config.task,
        labels=labels,
        sources=config.kept_sources,
        adapters=adapters or (),
        options=config.options,
        encoder_name=str(local.resolve()) if local.exists() else config.encoder,
        related_letters=config.related_letters,
    )
    return replace(tagger, decode=config.decode).to(find_device(config.device))


def load_start(config: TrainingConfig) -> Tagger:
    """The tagger that a configuration trains further: a shipped one by its name, or a folder."""
    places = (Path(config.start), shipped_folder() / config.start)
    folder = next((place for place in places if (place / saved.CONFIG).is_file()), None)
    if folder is None:
        raise ZgulError(f"{config.start} is neither a tagger's folder (with {saved.CONFIG}) nor a shipped tagger.")
    tagger = load_tagger(folder, device=str(find_device(config.device)))
    if tagger.task != config.task:
        raise ZgulError(f"{config.start} is a tagger for {tagger.task}, not for {config.task}.")
    judged = left_out(config) if config.em_by == "loso" and config.em_sentences else ()
    known = {*tagger.sources, *tagger.about.get("sentences", ())}
    if learnt := [language for language in (*config.leave_out, *judged) if language in known]:
        problem = f"{config.start} has learnt from {', '.join(learnt)} already, so nothing can be left out any more"
        raise ZgulError(f"{problem}. Train a new tagger, without --start.")
    return tagger


def with_settings_of(tagger: Tagger, config: TrainingConfig) -> TrainingConfig:
    """The configuration of training a tagger further, which keeps its method, options, encoder and letters."""
    given: dict[str, Any] = {"encoder": tagger.encoder_name, "related_letters": tagger.pieces.related_letters}
    given |= {"method": tagger.method.name, "options": tagger.parts.options, "decode": tagger.decode}
    return replace(config, **given)


def train(
    config: TrainingConfig, output: Path | str | None = None, *, report: Report = silent, saving: Saving = Saving()
) -> Tagger:
    """Train the tagger of a configuration, and save it in ``output``."""
    config = resolve(config)
    folder = Path(output) if output is not None else None
    if saving.bits not in BITS:
        raise ZgulError(f"A tagger is saved in {', '.join(map(str, BITS))} bits a number, not in {saving.bits}.")
    if folder is not None:
        check_output(folder, saving)
    if config.tensorboard and folder is None:
        raise ZgulError("The TensorBoard log is written into the folder of the model. Give it with --output.")
    find_device(config.device)  # check first, because reading takes long
    check_places(config.adapters)
    if config.start:
        tagger = load_start(config)
        config = with_settings_of(tagger, config)
        data = load_labelled(config, labels=tagger.labels)
    else:
        loaded = encoders.load(config.encoder)
        data = load_labelled(config)
        tagger = new_tagger(config, data.labels, encoder=loaded)
        tagger.model.start_head_at(data.label_shares().to(tagger.device))
    dev_sets = find_dev_sets(config)  # before training, so that missing data is noticed early
    trainer = Trainer(tagger, data, config, folder)
    if saving.resume and not trainer.resume():
        warnings.warn(f"{folder} has no checkpoint to resume. Training starts again.", ZgulWarning, stacklevel=2)
    distributed.wait()  # until all have looked at the folder
    if folder is not None and distributed.is_first():  # only now: the checkpoint could be another run's, and be lost
        config.save(folder / CONFIG)
        if not saving.resume:
            (folder / CHECKPOINT).unlink(missing_ok=True)  # it belongs to a run that is overwritten
        if config.tensorboard:
            report = _with_tensorboard(folder, report)
    started, history = time.monotonic(), trainer.run(report)
    last = config.select == "last"
    dev_f1 = (history[-1]["dev_f1"] if last else trainer.progress.best_f1) if data.dev else None
    about: dict[str, Any] = {
        # the place of the data does not matter to others; train.yaml has it
        "training": {key: value for key, value in config.to_dict().items() if key not in ("data", "device")},
        "sentences": dict(Counter(sentence.language for sentence in data.train)),
        "dev_f1": dev_f1,
        "steps": trainer.progress.step,
        "seconds": round(time.monotonic() - started, 1),
    }
    em: dict[str, EMConfig] = {}
    if dev_sets:
        em, about["em"] = choose_em(replace(tagger), config, dev_sets, report)
    tagger = replace(tagger, about=about, em=em)
    if folder is not None and distributed.is_first():
        bank = config.adapters != "shipped" or bool(config.extra_adapters or config.start)
        bits, inside = saving.bits, saving.save_encoder or tagger.encoder_name == UNNAMED  # nothing else has it
        save_tagger(tagger, folder, bits=bits, merged=bits == MERGED, bank=bank, encoder=inside)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    distributed.wait()
    return tagger


def leave_one_out(
    config: TrainingConfig, output: Path | str | None = None, *, report: Report = silent, saving: Saving = Saving()
) -> dict[str, dict[str, float]]:
    """For each source but English, train without it, and score it as an unseen language: dev F1 by strategy.

    This is the honest estimate if a target has no labelled data. The taggers are kept in ``output/without-LANG``. A
    resumed run loads the finished taggers and trains the others.
    """
    config = resolve(config)
    if config.start:
        config = with_settings_of(load_start(config), config)  # as the finished taggers have them
    runs = {language: replace(config, leave_out=(*config.leave_out, language)) for language in left_out(config)}
    folders = {language: Path(output) / f"without-{language}" if output is not None else None for language in runs}
    for used in filter(None, folders.values()):
        if not (saving.resume and is_finished(used)):
            check_output(used, saving)
        for name in (saved.CONFIG, CHECKPOINT) if saving.overwrite and distributed.is_first() else ():
            (used / name).unlink(missing_ok=True)
    if output is not None:
        begun = Path(output) / LEAVE_ONE_OUT
        if saving.resume and begun.is_file():
            check_config(config, begun)
        distributed.wait()
        if distributed.is_first():
            config.save(begun)  # so that the run can be resumed
    distributed.wait()
    result: dict[str, dict[str, float]] = {}
    for language, folder in folders.items():
        if folder is not None and is_finished(folder):
            check_config(runs[language], folder / CONFIG)
            tagger = load_tagger(folder, device=str(find_device(config.device)))
        else:
            resume = folder is not None and (folder / CHECKPOINT).is_file()
            own = replace(saving, resume=resume, overwrite=False)
            tagger = train(runs[language], folder, report=within(report, f"without {language}"), saving=own)
        result[language] = _strategy_scores(tagger, dev_sentences(config, language), report)
    return result


def _strategy_scores(tagger: Tagger, dev: list[Sentence], report: Report) -> dict[str, float]:
    """F1 of every strategy on sentences of an unseen language, which has no adapter of its own."""
    gold = [sentence.tags or [] for sentence in dev]
    result = {}
    for strategy in tagger.method.strategies:
        if strategy != "tgt":
            count = counter(report, f"{strategy} on {dev[0].language}", len(dev))
            predicted = tagger.predict(dev, strategy=strategy, on_batch=count)
            result[strategy] = scores(gold, [prediction.tags for prediction in predicted]).f1
    return result


def left_out(config: TrainingConfig) -> list[str]:
    """The sources that leave-one-source-out leaves out, one after the other."""
    kept = [language for language in config.kept_sources if language != PIVOT]
    if not kept or len(config.kept_sources) < 2:
        raise ZgulError(f"Leave-one-source-out needs two sources, one of them not English. There are {config.sources}.")
    return kept


DevSets = dict[str, dict[str, list[Sentence]]]  # target ("" for any other language) -> languages with dev sentences


def find_dev_sets(config: TrainingConfig) -> DevSets:
    """The dev sets to choose EM settings on: of each target's most related source, or on request its own."""
    method = find_method(config.method)
    if not config.em_sentences or not any(map(method.uses_em, method.strategies)):
        return {}
    candidates = left_out(config) if config.em_by == "loso" else config.kept_sources
    files = {source: source_split(config.group, source, "dev") for source in candidates}
    candidates = [one for one in files if DataFolder(config.data).labelled_file(config.task, one, files[one])]
    if not candidates:
        return {}
    unseen = config.targets or (GROUPS[config.group].targets if config.group else ())
    targets = [*unseen, *config.leave_out]
    related = {target: most_related(target, candidates) for target in targets}
    most = min(config.em_sentences, config.limit or config.em_sentences)
    sources = dict.fromkeys(related.values()) or candidates
    dev = {source: dev_sentences(config, source, most) for source in sources}
    dev_sets = {target: {source: dev[source]} for target, source in related.items()} | {"": dev}
    for target in targets if config.em_by == "target" else ():
        try:
            dev_sets[target] = {target: dev_sentences(config, target, most)}
        except ZgulError as error:
            instead = f"EM settings for {target} are chosen on {related[target]}"
            warnings.warn(f"{instead}: {error}", ZgulWarning, stacklevel=2)
    return dev_sets


def choose_em(
    tagger: Tagger, config: TrainingConfig, dev_sets: DevSets, report: Report = silent
) -> tuple[dict[str, EMConfig], dict[str, Any]]:
    """EM settings for every target of the group, and how they were chosen."""
    dev = {language: sentences for used in dev_sets.values() for language, sentences in used.items()}
    tables: dict[str, EMTable] = {}
    for language in sorted(dev):
        judged = tagger
        if config.em_by == "loso":
            without = replace(config, leave_out=(*config.leave_out, language), em_sentences=0, tensorboard=False)
            judged = train(without, report=within(report, f"without {language}"))
        count = counter(report, f"EM settings on {language}", len(dev[language]))
        tables[language] = em_table(judged, dev[language], on_batch=count)
    settings: dict[str, EMConfig] = {}
    about: dict[str, Any] = {"by": EM_BY[config.em_by], "strategy": em_strategy(tagger), "targets": {}}
    for target, judging in dev_sets.items():
        used = [tables[language] for language in judging]
        chosen = settings[target] = best_setting(used)
        about["targets"][target] = {
            "on": [f"{table.language} dev" + " (its own)" * (table.language == target) for table in used],
            "sentences": sum(table.sentences for table in used),
            "f1": round(fmean(table.f1[chosen.steps, chosen.lr] for table in used), 3),
            "f1_without_em": round(fmean(table.without for table in used), 3),
        }
    return settings, about


def dev_sentences(config: TrainingConfig, language: str, most: int = 0) -> list[Sentence]:
    """A language's dev set, or a sample of this many sentences."""
    dev = DataFolder(config.data).sentences(config.task, language, source_split(config.group, language, "dev"))
    return sample(dev, most, config.seed) if most else dev


def check_output(folder: Path, saving: Saving) -> None:
    """Refuse to overwrite a finished model, or a run that can be resumed."""
    if folder.exists() and not folder.is_dir():
        raise ZgulError(f"{folder} is a file. A tagger is saved as a folder.")
    if saving.overwrite and saving.resume:
        raise ZgulError("--resume continues what is there, and --overwrite replaces it. Give only one of them.")
    if saving.overwrite:
        return
    if is_finished(folder):
        done = "is trained to the end already" if saving.resume else "holds a finished model"
        raise ZgulError(f"{folder} {done}. Choose another --output, or replace it with --overwrite.")
    if (folder / CHECKPOINT).is_file() and not saving.resume:
        raise ZgulError(f"{folder} holds an unfinished run. Continue it with --resume, or replace it with --overwrite.")


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a finished run."""
    return (folder / saved.CONFIG).is_file() and not (folder / CHECKPOINT).is_file()


def check_config(config: TrainingConfig, path: Path) -> None:
    """Refuse to continue the run of a saved configuration with another one. See `ANYWHERE` for what may change."""
    free = dict.fromkeys(ANYWHERE, "")
    begun = TrainingConfig.from_dict(read_yaml(path))
    if begun.to_dict() | free != config.to_dict() | free:
        advice = "Use another --output, or replace it with --overwrite"
        raise ZgulError(f"{path} belongs to a run with another configuration. {advice}.")


def _with_tensorboard(folder: Path, report: Report) -> Report:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ZgulError("The TensorBoard log needs another package: pip install 'zgul[tensorboard]'") from error
    writer = SummaryWriter(str(folder / "tensorboard"))

    def both(status: Status) -> None:
        for name, value in status.figures.items():
            writer.add_scalar(name, value, status.done)
        writer.flush()
        report(status)

    return both
