"""A training run from its configuration to a saved tagger, and leave-one-source-out."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zgul import corpora
from zgul.adapters.bank import LanguageAdapter, subset
from zgul.corpora.sentence import Sentence
from zgul.devices import find_device
from zgul.encoders.encoder import Encoder
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import scores
from zgul.files import atomic_write
from zgul.languages import GROUPS, find, most_related
from zgul.methods import METHODS, method
from zgul.methods.tagger import Tagger
from zgul.training.config import TrainingConfig
from zgul.training.data import SPLITS, load_labelled, sample
from zgul.training.em_settings import EMTable, Grid, best_setting, em_strategy, em_table
from zgul.training.loop import CHECKPOINT, Report, Trainer, seed_everything

CONFIG = "train.yaml"  # the resolved configuration, beside the model
LEAVE_ONE_OUT = "leave_one_out.yaml"  # the same of leave-one-source-out, beside the folders of its taggers
BITS = (32, 16, 9)  # of a saved number
FOLDED = 9  # the form of shipped taggers: what can be multiplied out is, and can be trained no further
MODEL = "config.json"  # is written last: where it lies there is a whole model
PIVOT = "en"


def resolve(config: TrainingConfig) -> TrainingConfig:
    """The configuration with its group spelt out and every language by its code; refuses what cannot be trained."""
    chosen = method(config.method)
    if config.group:
        if config.group not in GROUPS:
            raise ZgulError(f"there is no group {config.group!r}; there are: {', '.join(GROUPS)}")
        group = GROUPS[config.group]
        config = replace(config, task=group.task, sources=config.sources or group.sources)
    if not config.sources:
        raise ZgulError("say what to train on: --group germanic, or --task pos --sources en,is,de")
    config = replace(
        config,
        sources=_codes(config.sources),
        leave_out=_codes(config.leave_out),
        extra_adapters=_codes(config.extra_adapters),
    )
    foreign = [language for language in config.leave_out if language not in config.sources]
    if foreign:
        raise ZgulError(f"{', '.join(foreign)} cannot be left out: the sources are {', '.join(config.sources)}")
    kept = [language for language in config.sources if language not in config.leave_out]
    if not kept or (chosen.english_only and PIVOT not in kept):
        raise ZgulError(f"{chosen.title} has nothing to train on without {', '.join(config.leave_out) or 'English'}")
    if not config.data:
        raise ZgulError("say where the labelled data is: --data DIR (see: zgul data list)")
    if not Path(config.data).is_dir():
        fetch = (
            f"; fetch it with: zgul data fetch --group {config.group} --output {config.data}" if config.group else ""
        )
        raise ZgulError(f"{config.data}: no such folder{fetch}")
    return config


def _codes(languages: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(find(language).code for language in languages))


def train(
    config: TrainingConfig,
    output: Path | str | None = None,
    report: Report | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    save_encoder: bool = False,
    bits: int = 32,
) -> Tagger:
    """Train what the configuration says and save it in ``output``; with ``resume`` go on from the checkpoint there.

    ``bits`` (32, 16 or 9) of a saved number: in 9 the tagger is saved as shipped ones are, small and for use alone.

    ``report`` hears of the progress: dictionaries with ``step``, ``steps``, ``seconds``, ``loss`` and, after an
    evaluation, ``dev_f1`` and ``best_f1`` while training; with ``stage``, ``done`` and ``total`` afterwards.
    """
    config = resolve(config)
    check_bits(bits)
    folder = Path(output) if output is not None else None
    if folder is not None:
        check_output(folder, resume=resume, overwrite=overwrite)
    if config.tensorboard and folder is None:
        raise ZgulError("TensorBoard's log lies beside the model: give --output")
    seed_everything(config.seed)
    data = load_labelled(config)
    has_em = any(map(method(config.method).uses_em, method(config.method).strategies))
    judges = find_judges(config) if has_em and config.em_sentences else None  # what is missing shows before training
    tagger = untrained(config, data.labels).to(find_device(config.device))
    tagger.model.start_at(data.label_shares())
    trainer = Trainer(tagger, data, config, folder)
    if resume and not trainer.resume():
        warnings.warn(f"{folder} has no checkpoint to resume from; starting anew", ZgulWarning, stacklevel=2)
    if folder is not None:  # not before the checkpoint is known to be this run's: else the run it is of would be lost
        save_config(config, folder / CONFIG)
        if not resume:
            (folder / CHECKPOINT).unlink(missing_ok=True)  # of a run that is overwritten
        if config.tensorboard:
            report = _with_tensorboard(folder, report)
    started = time.monotonic()
    history = trainer.run(report=report)
    tagger.about = {
        # where the data lay is this machine's business; train.yaml has it
        "training": {key: value for key, value in config.to_dict().items() if key not in ("data", "device")},
        "sentences": dict(Counter(sentence.language for sentence in data.train)),
        "dev_f1": trainer.progress.best_f1 if config.select == "best" else history[-1]["dev_f1"],
        "steps": trainer.progress.step,
        "seconds": round(time.monotonic() - started, 1),
    }
    if judges is not None:
        tagger.em, tagger.about["em"] = choose_settings(tagger, config, judges, report)
    if folder is not None:
        shipped = config.adapters == "shipped" and not config.extra_adapters
        tagger.save_pretrained(folder, bits=bits, folded=bits == FOLDED, bank=not shipped, encoder=save_encoder)
        if trainer.checkpoint is not None:
            trainer.checkpoint.unlink(missing_ok=True)
    return tagger


def leave_one_out(
    config: TrainingConfig,
    output: Path | str | None = None,
    report: Report | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    save_encoder: bool = False,
    bits: int = 32,
) -> dict[str, dict[str, float]]:
    """Train once without each source but English; F1 on that source's dev set, as an unseen language, by strategy.

    The honest proxy where a target has no labelled data at all. The taggers are kept in ``output/without-LANG``; with
    ``resume`` those that are finished are loaded, and the rest is trained.
    """
    config = resolve(config)
    check_bits(bits)
    runs = {language: replace(config, leave_out=(*config.leave_out, language)) for language in left_out(config)}
    folders = {language: Path(output) / f"without-{language}" if output is not None else None for language in runs}
    if output is not None:
        _begin_leaving_out(config, Path(output), resume=resume, overwrite=overwrite)
    result: dict[str, dict[str, float]] = {}
    for language, folder in folders.items():
        if folder is not None and is_finished(folder):
            check_same(runs[language], folder / CONFIG)
            tagger = Tagger.from_pretrained(folder, device=find_device(config.device))
        else:
            staged = _labelled(report, f"without {language}")
            begun = folder is not None and (folder / CHECKPOINT).is_file()
            tagger = train(runs[language], folder, staged, resume=begun, save_encoder=save_encoder, bits=bits)
        dev = dev_sentences(config, language)
        gold = [sentence.tags or [] for sentence in dev]
        result[language] = {}
        for strategy in tagger.method.strategies:
            if strategy != "tgt":  # an unseen language has no adapter of its own
                heard = _progress(report, f"{strategy} on {language}", len(dev))
                predicted = tagger.predict(dev, strategy=strategy, on_batch=heard)
                result[language][strategy] = scores(gold, [prediction.tags for prediction in predicted]).f1
    return result


def _begin_leaving_out(config: TrainingConfig, output: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse what would mix two runs, or lose one; keep the configuration, so that the run can be resumed."""
    folders = [output / f"without-{language}" for language in left_out(config)]
    for folder in folders:
        if not (resume and is_finished(folder)):
            check_output(folder, resume=resume, overwrite=overwrite)
        if overwrite:
            for name in (MODEL, CHECKPOINT):
                (folder / name).unlink(missing_ok=True)
    if resume and (output / LEAVE_ONE_OUT).is_file():
        check_same(config, output / LEAVE_ONE_OUT)
    save_config(config, output / LEAVE_ONE_OUT)


def left_out(config: TrainingConfig) -> list[str]:
    """The sources that leave-one-source-out leaves out, one after the other."""
    kept = [language for language in config.sources if language not in (PIVOT, *config.leave_out)]
    if not kept or len(config.sources) - len(config.leave_out) < 2:
        raise ZgulError(f"leave-one-source-out needs two sources, one not English; there are {config.sources}")
    return kept


@dataclass
class Judges:
    """What the EM settings are chosen on: for each target ("" for any other language) languages, and their dev sets."""

    languages: dict[str, list[str]]
    dev: dict[str, list[Sentence]]


def find_judges(config: TrainingConfig) -> Judges:
    """The dev set of each target's most related source or, where asked for and there, its own."""
    kept = [language for language in config.sources if language not in config.leave_out]
    candidates = left_out(config) if config.em_by == "loso" else kept
    targets = [*(GROUPS[config.group].targets if config.group else ()), *config.leave_out]
    related = {target: most_related(target, candidates) for target in targets}
    judges = Judges({target: [source] for target, source in related.items()}, {})
    judges.languages[""] = list(dict.fromkeys(related.values())) or candidates
    if config.em_by == "target":
        for target in targets:
            try:
                judges.dev[target] = _em_sample(config, target)
                judges.languages[target] = [target]
            except ZgulError as error:
                message = f"EM settings for {target} are chosen on {related[target]}: {error}"
                warnings.warn(message, ZgulWarning, stacklevel=2)
    for language in {language for used in judges.languages.values() for language in used} - set(judges.dev):
        judges.dev[language] = _em_sample(config, language)
    return judges


def choose_settings(
    tagger: Tagger, config: TrainingConfig, judges: Judges, report: Report | None = None
) -> tuple[dict[str, EMConfig], dict[str, Any]]:
    """EM settings for every target of the group, and how they were chosen."""
    tables = {language: _table(tagger, config, language, dev, report) for language, dev in sorted(judges.dev.items())}
    settings: dict[str, EMConfig] = {}
    about: dict[str, Any] = {"by": _BY[config.em_by], "strategy": em_strategy(tagger), "targets": {}}
    for target, judging in judges.languages.items():
        used = [tables[language] for language in judging]
        chosen = settings[target] = best_setting(used)
        about["targets"][target] = {
            "on": [f"{table.language} dev" + " (its own)" * (table.language == target) for table in used],
            "sentences": sum(table.sentences for table in used),
            "f1": _mean([table.f1[chosen.steps, chosen.lr] for table in used]),
            "f1_without_em": _mean([table.without for table in used]),
        }
    return settings, about


def _em_sample(config: TrainingConfig, language: str) -> list[Sentence]:
    return sample(dev_sentences(config, language), config.em_sentences, config.seed)


_BY = {
    "source": "the dev set of the most related source",
    "loso": "the dev set of the most related source, with a tagger trained without it",
    "target": "the target's own dev set where there is one (not zero-shot)",
}


def _table(
    tagger: Tagger, config: TrainingConfig, language: str, dev: list[Sentence], report: Report | None
) -> EMTable:
    if config.em_by == "loso":
        without = replace(config, leave_out=(*config.leave_out, language), em_sentences=0, tensorboard=False)
        tagger = train(without, report=_labelled(report, f"without {language}"))
    work = len(Grid().rates) * len(dev)  # chunks of long sentences make it a little more
    return em_table(tagger, dev, on_batch=_progress(report, f"EM settings on {language}", work))


def dev_sentences(config: TrainingConfig, language: str) -> list[Sentence]:
    """A language's dev set."""
    prefix = SPLITS.get((config.group, language), "")
    return corpora.load(config.data, config.task, language, prefix + "dev")


def untrained(config: TrainingConfig, labels: Sequence[str]) -> Tagger:
    """The tagger of a configuration before training."""
    from zgul import encoders

    model, tokenizer = encoders.load(config.encoder)
    sources = [language for language in config.sources if language not in config.leave_out]
    adapters = []
    if METHODS[config.method].needs_bank:
        wanted = [*sources, *(language for language in config.extra_adapters if language not in sources)]
        adapters = find_adapters(config.adapters, wanted, Encoder(model), config.encoder)
    tagger = Tagger.new(
        config.method,
        encoder=(model, tokenizer),
        task=config.task,
        labels=labels,
        sources=sources,
        adapters=adapters,
        options=config.options,
    )
    local = Path(config.encoder)
    tagger.encoder_name = str(local.resolve()) if local.exists() else config.encoder
    tagger.decode, tagger.pieces.kin_letters = config.decode, config.kin_letters
    return tagger


def find_adapters(
    where: str, languages: Sequence[str], encoder: Encoder, encoder_name: str = ""
) -> list[LanguageAdapter]:
    """The adapters of these languages from one place or, with commas, several.

    A place is "shipped", "new" (adapters that change nothing yet), our own file, a folder of such files and of
    AdapterHub's folders (or one such folder itself), or a hub name with {lang} in it, such as "{lang}/wiki@ukp".
    """
    found: dict[str, LanguageAdapter] = {}
    for place in where.split(","):
        for adapter in _adapters_at(place.strip(), languages, encoder, encoder_name):
            found.setdefault(adapter.language, adapter)
    return subset(found.values(), languages)


def _adapters_at(place: str, languages: Sequence[str], encoder: Encoder, encoder_name: str) -> list[LanguageAdapter]:
    from zgul.adapters.adapterhub import read_adapter
    from zgul.adapters.adapterhub_index import CONFIG as HUB_CONFIG
    from zgul.adapters.storage import load_adapters

    if place == "new":
        return [LanguageAdapter.new(language, encoder.width, encoder.depth) for language in languages]
    if place == "shipped":
        from zgul.tagging.shipped import adapters

        return adapters(list(languages))
    if "{lang}" in place:
        names = {language: place.replace("{lang}", language) for language in languages}
        return [read_adapter(name, language, encoder=encoder_name) for language, name in names.items()]
    path = Path(place).expanduser()
    if path.is_file():
        return load_adapters(path)
    if not path.is_dir():
        raise ZgulError(
            f"no language adapters at {place!r}: give shipped, new, a file or folder, or a hub name with {{lang}}"
        )
    if (path / HUB_CONFIG).is_file():
        return [read_adapter(path)]
    folders = [config.parent for config in sorted(path.glob(f"*/{HUB_CONFIG}"))]
    wanted = [folder for folder in folders if folder.name in languages]
    files = [file for file in sorted(path.glob("*.safetensors")) if _holds_adapters(file)]
    if not wanted and not files:
        raise ZgulError(
            f"{place} holds no language adapters of {', '.join(languages)}; train one with: zgul adapter train"
        )
    read = [read_adapter(folder, folder.name) for folder in wanted]
    return read + [adapter for file in files for adapter in load_adapters(file)]


def _holds_adapters(file: Path) -> bool:
    """Beside adapters may lie a masked-LM head."""
    from zgul.tensors import load_with_metadata

    return "adapters" in load_with_metadata(file)[1]


# --- the folder of a run


def check_output(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse to lose what is there: a finished model, or a run that can be resumed."""
    if folder.exists() and not folder.is_dir():
        raise ZgulError(f"{folder} is a file; a tagger is saved as a folder")
    if overwrite and resume:
        raise ZgulError("--resume goes on with what is there and --overwrite replaces it; give one of them")
    if overwrite:
        return
    if is_finished(folder):
        done = "is trained to the end already" if resume else "holds a finished model"
        raise ZgulError(f"{folder} {done}; choose another --output, or --overwrite it")
    if (folder / CHECKPOINT).is_file() and not resume:
        raise ZgulError(f"{folder} holds an unfinished run; go on with --resume, or --overwrite it")


def check_bits(bits: int) -> None:
    if bits not in BITS:
        raise ZgulError(f"a tagger is saved in {', '.join(map(str, BITS))} bits a number, not in {bits}")


def is_finished(folder: Path) -> bool:
    """Whether a run has come to its end here."""
    return (folder / MODEL).is_file() and not (folder / CHECKPOINT).is_file()


def check_same(config: TrainingConfig, saved: Path) -> None:
    """Refuse to go on with what was begun with another configuration; where the data lies may change."""
    free = dict.fromkeys(("data", "device", "tensorboard"), "")
    begun = TrainingConfig.from_dict(TrainingConfig.from_yaml(saved))
    if begun.to_dict() | free != config.to_dict() | free:
        raise ZgulError(f"{saved} belongs to a run with another configuration; use another --output, or --overwrite it")


def save_config(config: TrainingConfig, path: Path) -> None:
    """The resolved configuration as YAML, in the form that ``--config`` reads."""
    import yaml

    values = {key: list(value) if isinstance(value, tuple) else value for key, value in config.to_dict().items()}
    try:
        with atomic_write(path) as file:
            yaml.safe_dump(values, file, sort_keys=False, allow_unicode=True)
    except OSError as error:
        raise ZgulError(f"{path} cannot be written ({error.strerror or error}); choose another --output") from error


# --- reports


def _with_tensorboard(folder: Path, report: Report | None) -> Report:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ZgulError("TensorBoard's log needs one more package: pip install 'zgul[tensorboard]'") from error
    writer = SummaryWriter(str(folder / "tensorboard"))

    def both(status: dict[str, Any]) -> None:
        for name in ("loss", "dev_f1"):
            if name in status and "stage" not in status:
                writer.add_scalar(name, status[name], status["step"])
        writer.flush()
        if report is not None:
            report(status)

    return both


def _labelled(report: Report | None, stage: str) -> Report | None:
    """Reports of a run inside a run say which it is."""
    return None if report is None else lambda status: report({"stage": stage} | status)


def _progress(report: Report | None, stage: str, total: int) -> Callable[[int], None] | None:
    """Turn counts of sentences done into reports."""
    if report is None:
        return None
    done = 0

    def heard(count: int) -> None:
        nonlocal done
        done += count
        report({"stage": stage, "done": min(done, total), "total": total})

    return heard


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 3)
