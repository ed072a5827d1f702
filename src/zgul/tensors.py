"""Tensors on disk: safetensors in full, 16-bit or coded form. Pickles are read with care and never written.

The coded form has 2 to 12 ``bits``. The numbers of a row become whole steps, ``w ≈ step · code``. The step is a fixed
part of the row's root mean square; if it followed the row's largest number, one outlier would make all others coarse.
Large codes are rare, so their upper 8 bits are Huffman-coded. The lower bits are as good as random and are stored as
they are. A normally distributed row takes about ``bits`` bits a number. Vectors and small matrices stay in 16 bits.
"""

import json
import math
import pickletools
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from zgul.errors import ZgulError, first_line
from zgul.files import atomic_write

CODED = range(2, 13)  # bits
SMALL = 5000  # a matrix of fewer numbers is not worth coding
_GAUSS = 0.5 * math.log2(2 * math.pi * math.e)  # bits of a standard normal number in steps of 1
_NOTE = "zgul.coded"  # key in the file's metadata: [bits, columns] of each coded matrix
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_STEP, _HIGH, _LOW = ".step", ".high", ".low"
# All that a pickle of plain tensors refers to.
_GLOBALS = re.compile(r"collections OrderedDict|torch\._utils _rebuild_(tensor_v2|parameter)|torch(\.cuda)? \w*Storage")
_MAX_OPCODES = 300_000  # of a pickle; an encoder of 24 layers has some 12,000


class Coded(NamedTuple):
    """A matrix in coded form: ``w = step · code``."""

    codes: Tensor  # [..., rows, columns] int32
    step: Tensor  # [..., rows]
    bits: int

    def decoded(self) -> Tensor:
        return self.codes.float() * self.step.float()[..., None]


def save_tensors(
    path: Path,
    tensors: Mapping[str, Tensor | Coded],
    *,
    bits: int = 32,
    small: int = SMALL,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write tensors atomically. ``bits``: 32, 16, or 2 to 12 for the coded form.

    Matrices of fewer than ``small`` numbers are not coded. Tensors that are coded already stay as they are.
    """
    if bits not in (32, 16, *CODED):
        raise ZgulError(f"Tensors are saved in 32 or 16 bits, or coded in {CODED[0]} to {CODED[-1]}, not in {bits}.")
    packed: dict[str, Tensor] = {}
    coded: dict[str, list[int]] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        if not isinstance(tensor, Coded):
            tensor = tensor.detach().cpu().contiguous()
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise ZgulError(f"{name} holds numbers that are not finite. {path} was not written.")
            if bits in CODED and tensor.is_floating_point() and tensor.dim() > 1 and tensor.numel() >= small:
                tensor = quantise(tensor, bits)
        if isinstance(tensor, Coded):
            packed |= {name + part: value for part, value in _pack(tensor).items()}
            coded[name] = [tensor.bits, tensor.codes.shape[-1]]
        elif bits == 32 or not tensor.is_floating_point():
            memory = tensor.untyped_storage().data_ptr()
            packed[name] = tensor.clone() if memory in seen else tensor  # safetensors refuses shared memory
            seen.add(memory)
        else:
            packed[name] = tensor.to(torch.float16)
            if not torch.isfinite(packed[name]).all():
                raise ZgulError(f"{name} holds numbers too large for 16 bits. Save {path} in 32.")
    notes = dict(metadata or {}) | ({_NOTE: json.dumps(coded)} if coded else {})
    with atomic_write(path, "wb") as file:
        file.write(save(packed, metadata=notes or None))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors. Coded and 16-bit numbers become float32. Anything broken or not finite is refused."""
    return load_with_metadata(path)[0]


def load_with_metadata(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file and its metadata."""
    stored, metadata = load_coded(path)
    tensors = {}
    for name, tensor in stored.items():
        value = tensor.decoded() if isinstance(tensor, Coded) else tensor
        if (value.is_floating_point() or value.is_complex()) and value.dtype not in _FLOATS:
            raise ZgulError(f"{path}: {name} is of the type {value.dtype}, which zgul does not read")
        value = value.float() if value.dtype == torch.float16 else value
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise ZgulError(f"{path}: {name} holds numbers that are not finite. The file is damaged; save it again.")
        tensors[name] = value
    return tensors, metadata


def map_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file, mapped into memory, and its metadata. Shapes are checked first."""
    if not path.is_file():
        raise ZgulError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
            strange = any(len(shape) > 8 or math.prod(n or 1 for n in shape) > 2**40 for shape in shapes.values())
            if strange or len(shapes) > 20_000:  # which torch refuses late, or not at all
                raise ValueError("it has more than 20,000 tensors, or one of a strange shape")
            return {name: file.get_tensor(name) for name in shapes}, dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError) as error:
        raise ZgulError(f"{path} is not a complete safetensors file ({error}). Fetch or save it again.") from error


def load_coded(path: Path) -> tuple[dict[str, Tensor | Coded], dict[str, str]]:
    """The tensors of a file as they are stored, and its metadata."""
    mapped, metadata = map_tensors(path)
    packed: dict[str, Tensor | Coded] = dict(mapped)
    try:
        for name, (bits, columns) in json.loads(metadata.pop(_NOTE, "{}")).items():
            step, high, low = (cast(Tensor, packed.pop(name + part)) for part in (_STEP, _HIGH, _LOW))
            packed[name] = _unpack(step, high, low, bits, columns)
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError, RecursionError, zlib.error) as error:
        raise ZgulError(f"{path} is damaged: its coded tensors cannot be read ({first_line(error)}).") from error
    return packed, metadata


def load_pickled(path: Path) -> dict[str, Tensor]:
    """The tensors that `torch.save` wrote. Nothing in it is ever run, and no size that it declares is believed."""
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=_check_pickles(path))
    except Exception as error:  # each library has its own errors for a broken file
        problem = f"{path} is damaged, or contains more than plain tensors ({first_line(error)})"
        raise ZgulError(f"{problem}. A pickle can run code. Fetch it again, or do not trust it.") from error
    named = loaded.items() if isinstance(loaded, Mapping) else [(None, None)]
    if not all(isinstance(name, str) and isinstance(value, Tensor) for name, value in named):
        raise ZgulError(f"{path} is not a dictionary of named tensors.")
    if sum(value.numel() * value.element_size() for value in loaded.values()) > 2 * path.stat().st_size:
        raise ZgulError(f"{path} is damaged: its tensors are larger than the file. Fetch it again.")
    return dict(loaded)


def _check_pickles(path: Path) -> bool:
    """Check what a file refers to, and what sizes it declares, before torch allocates them. True for the zip format."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) != b"PK\3\4":  # before torch 1.6: three pickles about the format, the tensors, their names
            file.seek(0)
            for limit in (None, None, None, size, size):
                _check_pickle(file, limit)
            return False
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(member.compress_type for member in members) or sum(member.file_size for member in members) > size:
            raise ValueError("it unpacks to more than its own size")
        for member in members:
            if member.filename.endswith(".pkl"):
                with archive.open(member) as content:
                    _check_pickle(content, size)
    return True


def _check_pickle(file: IO[bytes], largest: int | None) -> None:
    for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if opcode.name in ("GLOBAL", "INST", "STACK_GLOBAL") and not _GLOBALS.fullmatch(str(argument)):
            raise ValueError(f"it refers to {argument}")
        if isinstance(argument, int) and largest is not None and not 0 <= argument <= largest:
            raise ValueError(f"it declares a size of {argument:,} in a file of {largest:,} bytes")
        if count > _MAX_OPCODES:
            raise ValueError("it is too complex for a file of tensors")


def quantise(tensor: Tensor, bits: int) -> Coded:
    """Round the numbers of each row to whole steps."""
    limit = 2 ** (bits + 2) - 1  # the largest code whose upper part fits in a byte
    rows = tensor.double()
    size = rows.square().mean(dim=-1).sqrt() * 2 ** (_GAUSS - bits)
    # bf16 has 8 binary digits, so the step may be rounded down by less than 1%
    step = torch.maximum(size, rows.abs().amax(dim=-1) / limit * 1.01).clamp(min=1e-30).to(torch.bfloat16)
    return Coded((rows / step.double()[..., None]).round().clamp(-limit, limit).to(torch.int32), step, bits)


def _pack(coded: Coded) -> dict[str, Tensor]:
    """The steps of the rows, and the codes as two streams of bytes."""
    low, codes = max(coded.bits - 5, 0), coded.codes.numpy().ravel()
    signless = np.where(codes < 0, -2 * codes - 1, 2 * codes)  # 0, -1, 1, -2, … as 0, 1, 2, 3, …
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zlib.Z_HUFFMAN_ONLY)
    high = deflate.compress((signless >> low).astype(np.uint8).tobytes()) + deflate.flush()
    planes = np.array([signless >> place & 1 for place in range(low)], np.uint8)
    return {
        _STEP: coded.step,
        _HIGH: torch.frombuffer(bytearray(high), dtype=torch.uint8),
        _LOW: torch.from_numpy(np.packbits(planes.ravel())),
    }


def _unpack(step: Tensor, high: Tensor, low: Tensor, bits: int, columns: int) -> Coded:
    """The inverse of `_pack`."""
    if bits not in CODED or not isinstance(columns, int) or columns < 1 or high.dtype != torch.uint8:
        raise ValueError(f"{bits!r} bits and {columns!r} columns make no sense")
    places, count = max(bits - 5, 0), step.numel() * columns
    # before memory is allocated for the announced numbers, each of which takes at least a bit of ``high``
    if low.numel() != -(-places * count // 8) or count > 8 * high.numel():
        raise ValueError(f"{count} numbers are announced, but the file is too short or too long for them")
    upper = zlib.decompressobj(-zlib.MAX_WBITS).decompress(high.numpy().tobytes(), count + 1)
    if len(upper) != count:
        raise ValueError(f"{count} numbers are announced, {len(upper)} are there")
    planes = np.unpackbits(low.numpy(), count=places * count).reshape(places, count)
    signless = np.frombuffer(upper, np.uint8).astype(np.int32) << places
    for place, plane in enumerate(planes):
        signless |= plane.astype(np.int32) << place
    codes = (signless >> 1) ^ -(signless & 1)
    return Coded(torch.from_numpy(codes).reshape(*step.shape, columns), step, bits)
