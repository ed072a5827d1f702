"""AdapterHub's files from attackers and broken disks: one clear sentence, little time, little memory."""

import json
import pickle
import pickletools
import random
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from zgul.adapters.adapterhub import read_adapter, write_adapter
from zgul.adapters.bank import LanguageAdapter
from zgul.errors import ZgulError

UP = "bert.encoder.layer.1.output.adapters.en.adapter_up.weight"


def adapter_folder(folder: Path, *, safe: bool = True) -> Path:
    return write_adapter(LanguageAdapter.new("en", 8, 2, invertible=True), folder, safe=safe)


def with_config(folder: Path, text: str | None = None, **fields: object) -> Path:
    """A folder with another configuration. Dotted names are not needed: unknown fields go to the inner object."""
    path = adapter_folder(folder) / "adapter_config.json"
    config = json.loads(path.read_text())
    for key, value in fields.items():
        (config if key in config else config["config"])[key] = value
    path.write_text(json.dumps(config) if text is None else text)
    return folder


def with_pickle(folder: Path, content: object, *, legacy: bool = False) -> Path:
    path = adapter_folder(folder, safe=False) / "pytorch_adapter.bin"
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    return folder


def with_tensor(folder: Path, value: torch.Tensor, *, legacy: bool = False) -> Path:
    tensors = torch.load(adapter_folder(folder, safe=False) / "pytorch_adapter.bin", weights_only=True)
    return with_pickle(folder, {**tensors, UP: value}, legacy=legacy)


def with_size(folder: Path, size: bytes, *, legacy: bool = True) -> Path:
    """A pickle that declares another size: ``size`` replaces the opcode that pushes the number 77."""
    path = with_pickle(folder, {UP: torch.zeros(77)}, legacy=legacy) / "pytorch_adapter.bin"
    if legacy:
        path.write_bytes(path.read_bytes().replace(b"K\x4d", size))
        return folder
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content.replace(b"K\x4d", size) if name.endswith(".pkl") else content)
    return folder


class Call:
    """Pickles to a call."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def compressed(folder: Path) -> Path:
    """A file of torch whose tensor is 400 MB of zeros, packed."""
    path = with_pickle(folder, {UP: torch.zeros(1)}) / "pytorch_adapter.bin"
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, bytes(400_000_000) if name.endswith("data/0") else content)
    return folder


def many_opcodes(folder: Path) -> Path:
    """The first of the four pickles in an old file goes on for ever."""
    adapter_folder(folder, safe=False)
    (folder / "pytorch_adapter.bin").write_bytes(b"\x80\x02" + b"N0" * 10_000_000 + b"N.")
    return folder


def allocating_names(folder: Path) -> Path:
    """An old file whose last pickle, the names of the storages, is a call."""
    path = with_pickle(folder, {UP: torch.zeros(1)}, legacy=True) / "pytorch_adapter.bin"
    with path.open("rb+") as file:
        for _ in range(4):
            list(pickletools.genops(file))
        file.write(pickle.dumps(Call(bytearray, 10**10), 2))
    return folder


EIGHT_BILLION = b"\x8a\x05" + (8_493_465_600).to_bytes(5, "little")  # LONG1
COSTLY = {
    "an expanded tensor": (lambda f: with_tensor(f, torch.zeros(1).expand(2000, 2000, 2000)), "larger than the file"),
    "an expanded tensor, old": (
        lambda f: with_tensor(f, torch.zeros(1).expand(2000, 2000, 2000), legacy=True),
        "larger than the file",
    ),
    "a declared size": (lambda f: with_size(f, EIGHT_BILLION, legacy=False), "declares a size of 8,493,465,600"),
    "a declared size, old": (lambda f: with_size(f, EIGHT_BILLION), "declares a size of 8,493,465,600"),
    "a packed tensor": (compressed, "unpacks to more than its own size"),
    "a call that allocates": (lambda f: with_pickle(f, {UP: Call(bytearray, 10**10)}), "more than plain tensors"),
    "a call of torch": (lambda f: with_pickle(f, {UP: Call(torch.Tensor, 10**5, 10**5)}), "more than plain tensors"),
    "names that allocate, old": (allocating_names, "more than plain tensors"),
    "a long pickle": (many_opcodes, "too complex"),
    "a wide encoder": (lambda f: with_config(f, hidden_size=1_000_000), r"asks for \[1000000, 500000\]"),
    "a wide bottleneck": (lambda f: with_config(f, reduction_factor=1e-6), r"asks for \[8, 8000000\]"),
    "a wide block": (lambda f: with_config(f, inv_adapter_reduction_factor=1e-6), r"asks for \[4000000, 4\]"),
    "a large configuration": (lambda f: with_config(f, "[" + "[]," * 400_000 + "[]]"), "larger than 1,000,000 bytes"),
    "many small objects": (lambda f: with_config(f, "[" + "[]," * 330_000 + "[]]"), "must contain a JSON object"),
}
MEASURE = """
    import json, resource, sys, time
    from zgul.adapters.adapterhub import read_adapter
    from zgul.errors import ZgulError
    virtual = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (virtual + 2_000_000_000,) * 2)  # so that a failure harms nobody
    for folder in sys.argv[1:]:
        used, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        try:
            message = f"read {read_adapter(folder)}"
        except ZgulError as error:
            message = str(error)
        except BaseException as error:
            message = f"{type(error).__name__}: {error}"
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used
        print(json.dumps([message, time.process_time() - start, more / 1000]))
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, float, float]]:
    """Message, seconds and megabytes of each costly case, all in one process of its own."""
    folders = [make(tmp_path_factory.mktemp("adapter")) for make, _ in COSTLY.values()]
    command = [sys.executable, "-c", textwrap.dedent(MEASURE), *map(str, folders)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(zip(COSTLY, map(json.loads, lines), strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory by /proc")
@pytest.mark.parametrize("case", COSTLY)
def test_a_small_file_costs_little(case: str, measured: dict[str, tuple[str, float, float]]) -> None:
    message, seconds, megabytes = measured[case]
    with pytest.raises(ZgulError, match=COSTLY[case][1]):
        raise ZgulError(message)
    assert len(message.splitlines()) == 1
    assert seconds < 1 and megabytes < 200


def test_the_costly_pickles_are_small(tmp_path: Path) -> None:
    COSTLY["an expanded tensor"][0](tmp_path)
    assert (tmp_path / "pytorch_adapter.bin").stat().st_size < 10_000


SPARSE = torch.sparse_coo_tensor(torch.zeros(2, 0, dtype=torch.long), torch.zeros(0), (8, 4), check_invariants=True)
DAMAGED_TENSORS = {
    "sparse": (lambda f: with_tensor(f, SPARSE), "more than plain tensors.*_rebuild_sparse_tensor"),
    "quantised": (
        lambda f: with_tensor(f, torch.quantize_per_tensor(torch.zeros(8, 4), 0.1, 0, torch.qint8)),
        "more than plain tensors.*_rebuild_qtensor",
    ),
    "a device of nowhere": (lambda f: with_tensor(f, torch.zeros(8, 4, device="meta")), "more than plain tensors"),
    "integer keys": (lambda f: with_pickle(f, {1: torch.zeros(1)}), "not a dictionary of named tensors"),
    "whole numbers": (lambda f: with_tensor(f, torch.zeros(8, 4, dtype=torch.int64)), rf"'{UP}' \(torch.int64\) is no"),
    "complex": (lambda f: with_tensor(f, torch.zeros(8, 4, dtype=torch.complex64)), r"complex64\) is no part"),
    "a negative size": (lambda f: with_size(f, b"J\xff\xff\xff\xff"), "declares a size of -1 "),
    "a negative size, new": (lambda f: with_size(f, b"J\xff\xff\xff\xff", legacy=False), "declares a size of -1 "),
    "a size too large for the storage": (lambda f: with_size(f, b"K\x4e", legacy=False), "damaged"),
    "nested": (lambda f: with_pickle(f, {"a": {"b": torch.zeros(1)}}), "not a dictionary of named tensors"),
    "no tensors": (lambda f: with_pickle(f, {}), "weights are for: none"),
    "no numbers": (lambda f: with_tensor(f, torch.zeros(8, 0)), r"has the shape \[8, 0\]"),
}


@pytest.mark.parametrize("case", DAMAGED_TENSORS)
def test_damaged_tensors_are_named(tmp_path: Path, case: str) -> None:
    make, message = DAMAGED_TENSORS[case]
    with pytest.raises(ZgulError, match=message) as caught:
        read_adapter(make(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8, torch.bool])
def test_other_kinds_of_numbers_in_safetensors(tmp_path: Path, dtype: torch.dtype) -> None:
    path = adapter_folder(tmp_path) / "adapter.safetensors"
    save_file({key: value.to(dtype) for key, value in load_file(path).items()}, path)
    with pytest.raises(ZgulError, match=rf"\({dtype}\) is no part of an adapter"):
        read_adapter(tmp_path)


def test_a_pickle_with_a_new_protocol_is_refused(tmp_path: Path) -> None:
    path = with_pickle(tmp_path, {UP: torch.zeros(1)}) / "pytorch_adapter.bin"
    torch.save({UP: torch.zeros(1)}, path, pickle_protocol=pickle.HIGHEST_PROTOCOL)
    with pytest.raises(ZgulError, match="more than plain tensors"):
        read_adapter(tmp_path)


DAMAGED_CONFIGS = {
    "deep nesting": ({"text": "[" * 100_000}, "nested too deeply"),
    "nesting that Python takes": ({"text": '{"a":' * 60 + "1" + "}" * 60}, "nested too deeply"),
    "a long number": (
        {"text": '{"config": {"x": [1, ' + "9" * 5000 + "]}}"},
        r"config\.x\.1 has more than",
    ),
    "a negative width": ({"hidden_size": -8}, "hidden_size must be a whole number from 1 .*, not -8"),
    "a width in words": ({"hidden_size": "eight"}, "hidden_size must be a whole number"),
    "a width that is true": ({"hidden_size": True}, "hidden_size must be a whole number"),
    "a list as a factor": ({"reduction_factor": [2]}, r"reduction_factor must be a number above 0 .*, not \[2\]"),
    "a large factor": ({"reduction_factor": 10**29}, "reduction_factor must be a number above 0"),
    "a factor of nearly zero": ({"reduction_factor": 5e-324}, "reduction_factor must be a number above 0"),
    "a block that is a list": ({"invertible_adapter": [1]}, "invertible_adapter must be an object"),
    "a name that is a list": ({"name": ["en"]}, r"adapter \"\['en'\]\", the weights are for: en"),
    "a long activation": ({"non_linearity": "x" * 10_000}, "non_linearity is .{60}…, but zgul has only"),
    "bytes": ({"text": "\udcff"}, "not valid JSON"),
}


@pytest.mark.parametrize("case", DAMAGED_CONFIGS)
def test_damaged_configurations_are_named(tmp_path: Path, case: str) -> None:
    fields, message = DAMAGED_CONFIGS[case]
    if "text" in fields:
        adapter_folder(tmp_path)
        (tmp_path / "adapter_config.json").write_bytes(str(fields["text"]).encode(errors="surrogateescape"))
    else:
        with_config(tmp_path, **fields)
    with pytest.raises(ZgulError, match=message) as caught:
        read_adapter(tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter.safetensors", "pytorch_adapter.bin"])
def test_a_folder_where_a_file_should_be(tmp_path: Path, name: str) -> None:
    adapter_folder(tmp_path, safe=name != "pytorch_adapter.bin")
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(ZgulError, match=r"\(Is a directory\)|contains no adapter\.safetensors"):
        read_adapter(tmp_path)


@pytest.mark.parametrize(
    ("name", "legacy"),
    [("adapter_config.json", False), ("adapter.safetensors", False), ("pytorch_adapter.bin", False)]
    + [("pytorch_adapter.bin", True)],
)
def test_any_damage_gives_an_adapter_or_one_clear_error(tmp_path: Path, name: str, legacy: bool) -> None:
    adapter_folder(tmp_path, safe=name != "pytorch_adapter.bin")
    path = tmp_path / name
    if legacy:
        torch.save(torch.load(path, weights_only=True), path, _use_new_zipfile_serialization=False)
    whole, chance = path.read_bytes(), random.Random(name)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            place = chance.randrange(len(damaged))
            damaged[place : place + chance.choice((0, 1, 1, 4))] = chance.randbytes(chance.choice((0, 1, 1, 4)))
        path.write_bytes(damaged)
        try:
            read_adapter(tmp_path)
        except ZgulError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 30
