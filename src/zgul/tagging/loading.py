"""Load taggers: those that serve a language (`load`, which is ``zgul.load``), shipped ones by name, and folders."""

import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

import torch

from zgul.corpora.sentence import TASKS, TaskChoice, check_task
from zgul.devices import find_device, find_precision
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.fast.adaptive import AdaptiveEM
from zgul.files import shipped_folder
from zgul.languages import Language, assign_group, find
from zgul.methods import Parts
from zgul.methods.model import Model
from zgul.tagger import Tagger, load_tagger
from zgul.tagging.delta import apply_delta, check_base, is_delta, load_delta
from zgul.tagging.prepared import Prepared, prepare, prepared_file, read_prepared
from zgul.tagging.serving import Served, installed_names, learnt_from, serving
from zgul.tagging.text_tagger import Inference, TextTagger

_LOADING = threading.RLock()  # else threads that come at once would each load a tagger of their own
SETTINGS = ("strategy", "em", "decode", "strip_marks", "precision")  # what may differ from the tagger as it ships


def load(
    lang: str | Language,
    task: TaskChoice | None = None,
    *,
    model: str | Path | None = None,
    em: bool | None = None,
    em_steps: int | None = None,
    em_lr: float | None = None,
    adaptive: bool | None = None,
    weights: bool = False,
    adapted: bool = True,
    strip_marks: bool | None = None,
    device: str = "cpu",
    precision: str = "auto",
) -> TextTagger:
    """Load a tagger for a language.

    ``task`` is ``pos``, ``ner`` or ``both``; the default is the task of the language's group, or of the model.
    The shipped tagger that serves the language is used unless ``model`` names another shipped one (``"slavic-pos"``)
    or a folder saved by `save_tagger`. ``em`` switches entropy minimisation on or off (default: as the tagger was
    tuned); ``em_steps`` and ``em_lr`` change it. ``adaptive`` EM costs a fraction, with nearly the same tags. It is the
    default unless steps or rate are given; False runs EM as in the paper. ``weights`` also gives the share of each
    source language for each word. ``adapted=False`` leaves out what the shipped tagger learnt from raw text of the
    language itself (`zgul.adapt`), so that its tags are zero-shot. ``strip_marks`` leaves stress, length and
    tone marks out of sentences that are full of them (default: as the tagger is, but not in languages that it learnt
    from). ``device`` is cpu, cuda, mps or auto.
    ``precision="auto"`` is int8 on CPUs that are fast in it, for taggers that were measured to keep their F1, else
    float32. "bfloat16" is faster on a CPU or GPU that supports it. Both give nearly the same tags as "float32".
    """
    language = find(lang)
    # check everything first, because loading takes seconds
    changes = {name: value for name, value in (("steps", em_steps), ("lr", em_lr)) if value is not None}
    EMConfig.from_dict(changes, "em_")
    find_precision(precision)
    place = str(find_device(device))
    if task not in (None, "both"):
        check_task(task, "pos, ner or both")
    if model is not None:
        if task == "both":
            raise ZgulError("A model has one task. For both tasks leave the model out.")
        tagger = load_named(str(model), place, precision)
        if task not in (None, tagger.task):
            raise ZgulError(f"{model} is a tagger for {tagger.task}, not for {task}. Leave the task out.")
        served = {tagger.task: Served(str(model), tagger.task, None, "the user named it")}
        taggers = {tagger.task: tagger}
    else:
        group = assign_group(language)
        task = task or (group.task if group else "pos")
        tasks = TASKS if task == "both" else [task]
        served = {name: serving(language, name, adapted=adapted) for name in tasks}
        for problem in filter(None, [one.warning for one in served.values()]):
            warnings.warn(problem, ZgulWarning, stacklevel=2)
        taggers = {name: load_shipped(one.name, place, precision) for name, one in served.items()}
    taggers = {name: _reading(tagger, language.code, strip_marks) for name, tagger in taggers.items()}
    choose = partial(choose_inference, language=language.code, em=em, adaptive=adaptive, changes=changes)
    inference = {name: choose(tagger) for name, tagger in taggers.items()}
    return TextTagger(language, taggers, served, inference, weights)


def _reading(tagger: Tagger, language: str, strip_marks: bool | None) -> Tagger:
    """The tagger with or without marks. It knows the marks of languages that it learnt from, so they stay."""
    if strip_marks is None:
        strip_marks = tagger.strip_marks and language not in learnt_from(tagger.sources, tagger.about)
    if strip_marks == tagger.strip_marks:
        return tagger
    change = tagger.changed if isinstance(tagger, ShippedTagger) else partial(replace, tagger)
    other = change(strip_marks=strip_marks)
    vars(other)["engine"] = tagger.engine  # it is the same model
    return other


def choose_inference(
    tagger: Tagger,
    language: str,
    *,
    strategy: str | None = None,
    em: bool | None = None,
    adaptive: bool | None = None,
    changes: Mapping[str, Any] | None = None,
    adaptive_default: bool = True,
) -> Inference:
    """Turn a user's choices into the settings of inference for a tagger and a language.

    ``em`` switches EM on or off; by default the tagger's own strategy decides. ``changes`` are settings that replace
    those the tagger was tuned to. ``adaptive`` EM costs a fraction (`AdaptiveEM`). By default it is
    ``adaptive_default``, or off if there are ``changes``, which are used as they are given.
    """
    changes, method = changes or {}, tagger.method
    if em is False and changes:
        raise ZgulError("EM is switched off, so its settings have no meaning. Leave them out.")
    chosen = method.check_strategy(strategy or tagger.strategy)
    if (em or changes) and not method.uses_em(chosen):
        with_em = [name for name in method.strategies if method.uses_em(name)]
        if strategy or not with_em:
            what = f"The strategy {strategy!r} of {method.title}" if strategy else method.title
            raise ZgulError(f"{what} has no EM. See: zgul methods")
        chosen = with_em[0]
    config = tagger.em_for(language, chosen)
    if config is None:
        return Inference(chosen)
    if em is False:
        return Inference(chosen, replace(config, steps=0))
    wanted = em or changes or adaptive is False
    if wanted and config.steps == 0 and "steps" not in changes:
        problem = f"EM was tuned to no steps for {find(language).name}. Give --em-steps."
        warnings.warn(problem, ZgulWarning, stacklevel=3)
    config = EMConfig.from_dict(config.to_dict() | dict(changes))
    if not (adaptive_default and not changes if adaptive is None else adaptive):
        return Inference(chosen, config)
    rule = AdaptiveEM()
    return Inference(chosen, rule.cheaper(config), rule.skip_below)


@dataclass(frozen=True, eq=False, repr=False)
class ShippedTagger(Tagger):
    """A tagger that comes with the package. A pickle of it holds its name and settings, not its weights.

    If it is *prepared* (`zgul.tagging.prepared`), it infers without ``model`` and ``parts``. They are loaded when
    somebody asks for them. `dataclasses.replace` does, and gives a tagger that is not prepared: its model may differ.
    """

    folder: Path = Path()
    prepared: Prepared | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self)["prepared"] = None

    @property
    def name(self) -> str:
        return self.folder.name

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """A tagger with these fields. One that is prepared may lack ``model`` and ``parts``."""
        tagger = cls.__new__(cls)
        vars(tagger).update(fields)
        Tagger.__post_init__(tagger)
        return tagger

    def __getattr__(self, name: str) -> Any:
        """What a prepared tagger lacks."""
        if name not in ("model", "parts") or vars(self).get("prepared") is None:
            raise AttributeError(name)
        with _LOADING:
            whole = _whole(self.folder)
        vars(self).update(model=whole.model, parts=whole.parts)
        return getattr(whole, name)

    @property
    def inferring(self) -> tuple[Model, Parts]:
        return (self.prepared.model, self.prepared.parts) if self.prepared else (self.model, self.parts)

    def changed(self, **settings: Any) -> Self:
        """This tagger with other settings. It shares the weights, whether they are loaded or not."""
        return self.of(**{name: value for name, value in vars(self).items() if name != "engine"} | settings)

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        if self.prepared is None:  # else its weights are those that ship
            shipped = load_shipped(self.name).model.head.weight
            if not torch.equal(self.model.head.weight.cpu(), shipped):  # it was trained further
                return super().__reduce_ex__(protocol)
        state = self.__getstate__()
        return _restore, (self.name, str(self.device), *(state[field] for field in SETTINGS))


def _restore(name: str, device: str, *settings: Any) -> Tagger:
    return load_shipped(name, device).changed(**dict(zip(SETTINGS, settings, strict=True)))


def load_shipped(name: str, device: str = "cpu", precision: str = "float32") -> ShippedTagger:
    """The shipped tagger of this name, on a device. Taggers do not change, so each is loaded once and shared."""
    path = shipped_folder() / name
    if not ((path / "config.json").is_file() or is_delta(path)):
        problem = f'The tagger "{name}" is missing: {path} has no config.json (installed: {_installed()}).'
        advice = "or use a folder of your own: zgul tag --model FOLDER, zgul.load(model=FOLDER)."
        raise ZgulError(f"{problem} Install the package with its weights again, {advice}")
    with _LOADING:
        return _load(path, str(find_device(device)), precision)


@lru_cache(maxsize=64)
def _load(path: Path, device: str, precision: str) -> ShippedTagger:
    if device != "cpu" or precision == "bfloat16":
        return replace(_whole(path).to(device), precision=precision)
    if precision != "float32":
        return _load(path, device, "float32").changed(precision=precision)
    file = prepared_file(path)
    prepared = read_prepared(file)
    if prepared is None and prepare(_whole(path), file):
        prepared = read_prepared(file)
    if prepared is None:
        return _whole(path)
    return ShippedTagger.of(**prepared.settings, precision=precision, folder=path, prepared=prepared)


@lru_cache(maxsize=64)
def _whole(path: Path) -> ShippedTagger:
    """A shipped tagger with all of its weights."""
    if is_delta(path):
        delta = load_delta(path)
        adapted = apply_delta(_whole(check_base(delta, path.name)), delta, path.name)
        return ShippedTagger(**vars(adapted), folder=path)
    return ShippedTagger(**vars(load_tagger(path)), folder=path)


def load_named(model: str, device: str = "cpu", precision: str = "float32") -> Tagger:
    """A tagger from a folder, also of an adapted one, or a shipped one by its name."""
    if is_delta(model):
        delta = load_delta(model)
        folder, ships = check_base(delta, model), delta.base in installed_names()
        base = load_shipped(delta.base, device, precision) if ships else load_named(str(folder), device, precision)
        return apply_delta(base, delta, model)
    if (Path(model) / "config.json").is_file():
        return replace(load_tagger(model, device=device), precision=precision)
    if model in installed_names():
        return load_shipped(model, device, precision)
    what = "neither a tagger's folder (with config.json) nor one of the shipped taggers"
    raise ZgulError(f"{model} is {what}: {_installed()}.")


def _installed() -> str:
    return ", ".join(installed_names()) or "none"
