"""AdapterHub's language adapters: read and write the files of ``adapters``, and fetch adapters by name.

A folder contains ``adapter_config.json`` and ``adapter.safetensors`` or ``pytorch_adapter.bin``. The bank takes one
bottleneck after the feed-forward block of each layer (Pfeiffer's placement) and, optionally, a NICE block after the
embeddings. Other adapters are refused. Sizes are compared with the file before memory is allocated.

``org/repository`` is a Hugging Face repository. ``en/wiki@ukp`` (task, corpus, author) and ``@ukp/file`` are names in
AdapterHub's own index, which no longer changes: ``index/ENCODER.json`` leads to an entry, and the entry to a zip file
with its checksum. Repositories ``AdapterHub/FILE`` have copies, which are tried first. Downloads stay in the cache.
"""

import contextlib
import json
import math
import os
import re
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor, nn

import zgul
from zgul.adapters.language_adapter import ACTIVATIONS, Bottleneck, Invertible, LanguageAdapter
from zgul.download import DownloadOptions, NotFoundError, download, exclusive
from zgul.errors import ZgulError, first_line
from zgul.files import DAMAGED, MAX_JSON, atomic_write, cache_dir, read_json, write_json
from zgul.tensors import load_pickled, map_tensors, save_tensors

CONFIG, SAFE, PICKLED = ADAPTER_FILES = ["adapter_config.json", "adapter.safetensors", "pytorch_adapter.bin"]
INDEX = "https://raw.githubusercontent.com/Adapter-Hub/Hub/master/dist/v2"
MAX_BYTES = 1_000_000_000  # of an adapter, packed or not; the wiki adapters of mBERT have 30 MB
MAX_RATIO = 100  # unpacked to packed size; weights hardly shrink
_WORD = r"[\w-][\w.-]*"  # safe as a part of a path
_ENTRY_PATH = re.compile(rf"adapters/(?P<org>{_WORD})/(?P<file>{_WORD})\.json")
_OPTIONS = DownloadOptions(attempts=2)
# The values that options of the configuration must have. `adapters` has the same defaults, except for _REQUIRED.
_ON = ("output_adapter", "original_ln_before", "original_ln_after", "residual_before_ln")
_OFF = ("mh_adapter", "cross_adapter", "ln_after", "is_parallel", "use_gating", "phm_layer")
_PFEIFFER = dict.fromkeys(_ON, True) | dict.fromkeys(_OFF, False) | {"scaling": 1.0, "leave_out": []}
_REQUIRED = ("output_adapter", "mh_adapter", "original_ln_before")
_OLD_ACTIVATIONS = {"gelu": "gelu_new", "gelu_orig": "gelu"}  # in files without a version
_PREFIXES = {"bert": "bert", "roberta": "roberta", "xlm-roberta": "roberta"}
_LAYER, _BLOCK = "encoder.layer.{}.output.adapters", "invertible_adapters"
_KEY = re.compile(
    r"(?:\w+\.)?(?:encoder\.layer\.(?P<layer>[0-9]{1,3})\.output\.(?:layer_text_(?:lang|task)_)?adapters"
    r"|invertible_(?:lang_)?adapters)\.(?P<name>[^.]+)\.(?P<part>.+)"
)
_BLOCK_PARTS = {"F.0": "f_down", "F.2": "f_up", "G.0": "g_down", "G.2": "g_up"}
_MOST = 1_000_000  # the largest width of a layer, and the largest reduction factor


def read_adapter(
    folder_or_name: str | Path, language: str | None = None, *, encoder: str | None = None, version: str | None = None
) -> LanguageAdapter:
    """Read a language adapter from a folder, a Hugging Face repository or AdapterHub's index.

    ``language`` is its name in the bank. The default is the name in the file. docs/adapterhub.md has examples.
    """
    folder = Path(os.path.expanduser(folder_or_name))  # noqa: PTH111  # leaves users that do not exist as they are
    if not folder.is_dir():
        folder = fetch_adapter(str(folder_or_name), encoder=encoder, version=version)
    file = folder / (SAFE if (folder / SAFE).is_file() else PICKLED)
    if not file.is_file() or not (folder / CONFIG).exists():
        missing = CONFIG if file.is_file() else f"{SAFE} and no {PICKLED}"
        raise ZgulError(f"{folder} contains no {missing}. Give the folder of an AdapterHub adapter.")
    config = _Config(folder / CONFIG)
    adapter = _build(_rename(_read_tensors(file), config, file), config, file)
    adapter.language = language or config.name
    adapter.about = {"source": str(folder_or_name), "name": config.name, **config.about}
    return adapter


def write_adapter(
    adapter: LanguageAdapter, folder: str | Path, *, model_type: str = "bert", model_name: str = "", safe: bool = True
) -> Path:
    """Write a folder that `adapters` loads with ``model.load_adapter(folder)``. Older versions need ``safe=False``."""
    if model_type not in _PREFIXES:
        raise ZgulError(f"AdapterHub files are for {', '.join(_PREFIXES)}, not for the model type {model_type!r}.")
    if not re.fullmatch(r"[^./\s]+", adapter.language):
        raise ZgulError(f"The adapter's name {adapter.language!r} must not contain dots, slashes or spaces.")
    folder = Path(folder)
    tensors = {}
    for key, value in _parameters(adapter).items():
        # `adapters` has the norm under both names
        for name in {key, key.replace("adapter_down.0", "adapter_norm_before") if adapter.standardise else key}:
            tensors[f"{_PREFIXES[model_type]}.{name}"] = value.detach().cpu().float().clone().contiguous()
    factors = [reduction_factor(adapter.width, size) for size in adapter.sizes]
    down = adapter.invertible.f_down if adapter.invertible else None
    inner = {
        **_PFEIFFER,
        "adapter_residual_before_ln": False,
        "ln_before": adapter.standardise,
        "non_linearity": adapter.activation,
        "reduction_factor": factors[0] if len(set(factors)) == 1 else {str(i): f for i, f in enumerate(factors)},
        "inv_adapter": "nice" if down else None,
        "inv_adapter_reduction_factor": reduction_factor(down.in_features, down.out_features) if down else None,
    }
    about = {"model_name": model_name or adapter.about.get("model_name"), "model_type": model_type}
    version = f"zgul.{zgul.__version__}"  # without a version, gelu would mean gelu_new
    config = {"config": inner, "hidden_size": adapter.width, **about, "name": adapter.language, "version": version}
    if safe:
        save_tensors(folder / SAFE, tensors)
    else:
        with atomic_write(folder / PICKLED, "wb") as file:
            torch.save(tensors, file)
    write_json(folder / CONFIG, config)
    (folder / (PICKLED if safe else SAFE)).unlink(missing_ok=True)  # it would be another, older adapter
    return folder


def reduction_factor(width: int, size: int) -> float:
    """Find a factor with ``int(width // factor) == size``: a whole number if there is one."""
    if size <= width and width // (width // size) == size:
        return width // size
    factor = width / size
    while int(width // factor) < size:  # the division fell just short
        factor = math.nextafter(factor, 0)
    return factor


class _Config:
    def __init__(self, path: Path) -> None:
        content = read_json(path)
        self.path = path
        self.about = {key: content[key] for key in ("model_name", "model_type", "version") if content.get(key)}
        self.name = str(content.get("name") or "")
        self.is_task = content.get("type") == "text_task"
        self.width = content.get("hidden_size")
        if self.width is not None and (type(self.width) is not int or not 1 <= self.width <= _MOST):
            raise ZgulError(f"{path}: hidden_size must be a whole number from 1 to {_MOST:,}, not {_show(self.width)}.")
        inner = self._object(content, "config")
        for key, wanted in {**_PFEIFFER, "architecture": None}.items():
            given = inner.get(key)
            if given != wanted and (given is not None or key in _REQUIRED):
                problem = f"{key} is {_show(given)}, but Pfeiffer's placement, which zgul needs, has {_show(wanted)}"
                raise ZgulError(f"{path}: {problem}.")
        self.ln_before = bool(inner.get("ln_before"))
        name = str(inner.get("non_linearity")).lower()
        self.activation = name if "version" in content else _OLD_ACTIVATIONS.get(name, name)
        if self.activation not in ACTIVATIONS:
            raise ZgulError(f"{path}: non_linearity is {_show(name)}, but zgul has only {', '.join(ACTIVATIONS)}.")
        self.reduction = inner.get("reduction_factor")
        nested = self._object(inner, "invertible_adapter") if inner.get("invertible_adapter") else {}
        block = inner.get("inv_adapter") or nested.get("block_type")
        if block and block != "nice":
            raise ZgulError(f"{path}: inv_adapter is {_show(block)}, but zgul supports only the invertible block nice.")
        given = inner.get("inv_adapter_reduction_factor") or nested.get("reduction_factor")
        self.block_factor = self._factor(given, "inv_adapter_reduction_factor") if block else None

    def _object(self, value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        if isinstance(found := value.get(key), dict):
            return found
        raise ZgulError(f"{self.path}: {key} must be an object that describes the architecture.")

    def _factor(self, given: Any, key: str) -> float:
        try:
            factor = float(given)
        except (TypeError, ValueError):
            factor = math.nan
        if not 1 / _MOST <= factor <= _MOST:
            raise ZgulError(f"{self.path}: {key} must be a number above 0 and at most {_MOST:,}, not {_show(given)}.")
        return factor

    def size(self, layer: int, width: int) -> int:
        """Units of the bottleneck of a layer. The reduction factor may be given by layer."""
        given = self.reduction
        if isinstance(given, dict):
            given = given.get(str(layer), given.get("default"))
        return max(1, int(width // self._factor(given, "reduction_factor")))


def _show(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors in single precision."""
    loaded = load_pickled(path) if path.name == PICKLED else map_tensors(path)[0]
    for key, value in loaded.items():
        if not value.is_floating_point() or value.element_size() == 1:
            raise ZgulError(f"{path}: {key!r} ({value.dtype}) is no part of an adapter. Only float tensors are.")
        if not torch.isfinite(value).all():
            raise ZgulError(f"{path}: {key} contains values that are NaN or infinite. The adapter cannot be used.")
    return {key: value.detach().float() for key, value in loaded.items()}


def _rename(tensors: Mapping[str, Tensor], config: _Config, path: Path) -> dict[str, Tensor]:
    """Give the tensors the names of the newest format, without the prefix of the encoder."""
    matches = {key: _KEY.fullmatch(key) for key in tensors}
    if others := [key for key, match in matches.items() if match is None]:
        raise ZgulError(f"{path}: {_join(others)} do not belong to a Pfeiffer adapter.")
    renamed: dict[str, Tensor] = {}
    names = set()
    for key, match in matches.items():
        if match and not (config.ln_before and "adapter_norm_before." in key):  # a second name of adapter_down.0
            names.add(match["name"])
            place = _LAYER.format(int(match["layer"])) if match["layer"] else _BLOCK
            renamed[f"{place}.{match['name']}.{match['part']}"] = tensors[key]
    if not config.name and len(names) == 1:
        (config.name,) = names
    if names != {config.name}:
        held = f"the weights are for: {_join(sorted(names)) or 'none'}"
        raise ZgulError(f"{path}: the configuration is for the adapter {_show(config.name)}, {held}.")
    return renamed


def _build(given: Mapping[str, Tensor], config: _Config, path: Path) -> LanguageAdapter:
    depth = max((int(key.split(".")[2]) for key in given if key.startswith("encoder.")), default=-1) + 1
    if not depth:
        raise ZgulError(f"{path} contains no layer of an adapter.")
    stems = [f"{_LAYER.format(i)}.{config.name}" for i in range(depth)]
    bias = given.get(f"{stems[-1]}.adapter_up.bias")
    width = config.width or (1 if bias is None else max(1, bias.numel()))
    if config.is_task and not any(key.startswith(_BLOCK) for key in given):
        config.block_factor = None  # old task adapters name an invertible block that they never had
    sizes = [config.size(i, width) for i in range(depth)]
    # The widest matrices must be there before modules of their size are allocated.
    matrices = {f"{stem}.adapter_up.weight": (width, size) for stem, size in zip(stems, sizes, strict=True)}
    half = width // 2
    block_size = max(1, int(half // config.block_factor)) if config.block_factor else 0
    if block_size:
        matrices[f"{_BLOCK}.{config.name}.F.0.weight"] = (block_size, half)
    _check_shapes(matrices, given, path)
    layers = [Bottleneck(width, size, config.activation, config.ln_before) for size in sizes]
    block = Invertible(width, block_size, config.activation) if block_size else None
    adapter = LanguageAdapter(config.name, layers, block)
    parameters = _parameters(adapter)
    _check_shapes({key: tuple(value.shape) for key, value in parameters.items()}, given, path)
    if extra := sorted(given.keys() - parameters.keys()):
        raise ZgulError(f"{path} contains {_join(extra)}, which {CONFIG} does not describe.")
    with torch.no_grad():
        for key, parameter in parameters.items():
            parameter.copy_(given[key])
        for stem, layer in zip(stems, layers, strict=True):
            if config.ln_before:  # D (g * n + b) + c = (D diag g) n + (D b + c)
                layer.down.bias.add_(layer.down.weight @ given[f"{stem}.adapter_down.0.bias"])
                layer.down.weight.mul_(given[f"{stem}.adapter_down.0.weight"])
    return adapter


def _parameters(adapter: LanguageAdapter) -> dict[str, Tensor]:
    """The parameters of an adapter by their names in a file, without the prefix of the encoder."""
    modules: dict[str, nn.Module] = {}
    for i, layer in enumerate(adapter.layers):
        stem = f"{_LAYER.format(i)}.{adapter.language}"
        modules[f"{stem}.adapter_up"] = layer.up
        modules[f"{stem}.adapter_down.{int(layer.standardise)}"] = layer.down
        if layer.standardise:
            modules[f"{stem}.adapter_down.0"] = nn.LayerNorm(adapter.width)
    if adapter.invertible is not None:
        for part, name in _BLOCK_PARTS.items():
            modules[f"{_BLOCK}.{adapter.language}.{part}"] = getattr(adapter.invertible, name)
    return {f"{name}.{key}": value for name, module in modules.items() for key, value in module.named_parameters()}


def _check_shapes(wanted: Mapping[str, tuple[int, ...]], given: Mapping[str, Tensor], path: Path) -> None:
    if missing := sorted(wanted.keys() - given.keys()):
        raise ZgulError(f"{path} is incomplete. It lacks {_join(missing)}.")
    for key, shape in wanted.items():
        if given[key].shape != shape:
            raise ZgulError(f"{path}: {key} has the shape {list(given[key].shape)}. {CONFIG} asks for {list(shape)}.")


def _join(names: list[str]) -> str:
    """The first three names, each shortened, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(name[:100] for name in names[:3]) + more


# --- adapters by name


def fetch_adapter(name: str, *, encoder: str | None = None, version: str | None = None) -> Path:
    """Return the folder of the adapter with this name, from the cache or the network.

    ``encoder`` is needed for names in AdapterHub's index. ``version`` is a branch, or a version of the index entry.
    """
    if version is not None and not re.fullmatch(rf"{_WORD}(/{_WORD})*", version):
        raise ZgulError(f"{version!r} cannot be the version of an adapter.")
    if match := re.fullmatch(rf"@({_WORD})/({_WORD})", name):
        return _from_entry(f"adapters/{match[1]}/{match[2]}.json", version)
    if match := re.fullmatch(rf"({_WORD})/({_WORD})@({_WORD})", name):
        return _from_entry(_find_entry(match, encoder), version)
    if re.fullmatch(rf"{_WORD}/{_WORD}", name):
        try:
            return _from_hugging_face(name, version)
        except NotFoundError as error:
            raise ZgulError(f"{error} For a name in AdapterHub's index add the author: {name}@ukp.") from None
    raise ZgulError(f"{name}: no such folder, and not a name on a hub either (such as 'en/wiki@ukp').")


def _from_hugging_face(repository: str, version: str | None) -> Path:
    from huggingface_hub import HfApi  # takes long, for few users
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    files: Any = ()
    with contextlib.suppress(Exception):  # the download meets the same error, and then looks into its cache
        files = api.model_info(repository, revision=version, files_metadata=True).siblings
    for file in files or ():
        if file.rfilename in ADAPTER_FILES and (file.size or 0) > MAX_BYTES:
            raise ZgulError(f"{repository}: {file.rfilename} is larger than {MAX_BYTES:,} bytes: not an adapter.")
    cache = cache_dir() / "huggingface"
    try:
        return Path(api.snapshot_download(repository, revision=version, cache_dir=cache, allow_patterns=ADAPTER_FILES))
    except RepositoryNotFoundError:
        raise NotFoundError(f"{repository}: no such folder, and no public repository on Hugging Face.") from None
    except RevisionNotFoundError:
        raise ZgulError(f"{repository} has no version {version!r} on Hugging Face.") from None
    except Exception as error:  # its own errors, and those of the HTTP library that it happens to use
        advice = "Check the connection, or copy the adapter's folder from another machine and give its path"
        raise ZgulError(f"{repository}: Hugging Face gave no answer ({first_line(error)}). {advice}.") from error


def _find_entry(name: re.Match[str], encoder: str | None) -> str:
    """The path of the entry ``task/subtask@org`` for an encoder."""
    if encoder is None:
        which = "Name the encoder, for example encoder='bert-base-multilingual-cased'"
        raise ZgulError(f"{name[0]}: AdapterHub has one adapter for each encoder. {which}.")
    encoder = encoder.removeprefix("google-bert/").removeprefix("FacebookAI/")  # the index has the older names
    index: dict[str, Any] = {}
    with contextlib.suppress(NotFoundError):
        index = _read_index(f"index/{encoder}.json") if re.fullmatch(_WORD, encoder) else {}
    if not index:
        raise ZgulError(f"AdapterHub's index has nothing for the encoder {encoder!r}. It lists encoders by name.")
    task, subtask, org = name.groups()
    choices = dict(_field(_field(index, task), subtask))
    paths = [choices.pop("default", None)]
    for key in choices:
        paths += _field(_field(choices, key), "versions").values()
    entries = [entry for path in paths if (entry := _ENTRY_PATH.fullmatch(str(path)))]
    if not entries:
        others = ", ".join(sorted(other for other in index if subtask in _field(index, other)))
        hint = f" {subtask} exists for: {others}." if others else ""
        raise ZgulError(f"AdapterHub has no {task}/{subtask} for {encoder}.{hint}")
    by_author = {entry["org"]: entry[0] for entry in reversed(entries)}  # the first one of each author
    if org not in by_author:
        raise ZgulError(f"AdapterHub's {task}/{subtask} is by {', '.join(sorted(by_author))}, not by {org}.")
    return by_author[org]


def _field(value: dict[str, Any], name: str) -> dict[str, Any]:
    """An object in the index, or an empty one if it is not there."""
    if isinstance(content := value.get(name, {}), dict):
        return content
    raise ZgulError(f"AdapterHub's index is damaged: {name} must be an object. Delete {cache_dir() / 'adapterhub'}.")


def _from_entry(path: str, version: str | None) -> Path:
    """The adapter of an entry: its copy on Hugging Face or, if there is none, its zip file."""
    name = PurePosixPath(path).stem
    with contextlib.suppress(NotFoundError):
        return _from_hugging_face(f"AdapterHub/{name}", version)
    entry = _read_index(path)
    version = version or str(entry.get("default_version"))
    file = _field(_field(entry, "files"), version)
    if not file or not re.fullmatch(_WORD, version):
        raise ZgulError(f"{path} has no version {version!r}. It has: {', '.join(_field(entry, 'files'))}.")
    folder = cache_dir() / "adapterhub" / f"{name}-{version}"
    if not folder.is_dir():
        with exclusive(folder.parent):
            if not folder.is_dir():  # another process may have been faster
                _fetch_archive(str(file.get("url")), str(file.get("sha256") or file.get("sha1")), folder)
    return folder


def _fetch_archive(url: str, checksum: str, folder: Path) -> None:
    """Download a zip file and unpack the adapter's files from it. The folder appears when it is complete."""
    path, temporary = folder.with_name(f"{folder.name}.zip"), folder.with_name(f".{folder.name}")
    download(url, path, checksum=checksum, max_bytes=MAX_BYTES, options=_OPTIONS)
    shutil.rmtree(temporary, ignore_errors=True)  # of a run that was killed
    temporary.mkdir()
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if PurePosixPath(info.filename).name in ADAPTER_FILES]
            size = sum(member.file_size for member in members)
            if size > min(MAX_BYTES, MAX_RATIO * path.stat().st_size):
                raise ZgulError(f"{url} unpacks to {size:,} bytes, which is too much for an adapter.")
            for member in members:
                member.filename = PurePosixPath(member.filename).name
                archive.extract(member, temporary)
        temporary.rename(folder)
    except (*DAMAGED, zipfile.BadZipFile, RuntimeError, ValueError) as error:
        raise ZgulError(f"{url} is not a zip file that can be read ({error}).") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        path.unlink()


def _read_index(path: str) -> dict[str, Any]:
    """Read a file of the index. It never changes, so a copy in the cache is enough."""
    copy = cache_dir() / "adapterhub" / path
    if not copy.is_file():
        with exclusive(cache_dir() / "adapterhub"):
            url = f"{os.environ.get('ZGUL_ADAPTERHUB_URL', INDEX)}/{path}"
            download(url, copy, max_bytes=MAX_JSON, options=_OPTIONS)
    try:
        return read_json(copy)
    except ZgulError:
        copy.unlink(missing_ok=True)  # the next call downloads it again
        raise
