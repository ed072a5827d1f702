"""The machine that is measured, and the operations that a call needs."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from unittest import mock

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.harness import ROOT
from zgul.fast import engine as engine_module

CPU_INFO = Path("/proc/cpuinfo")


def describe_machine(device: torch.device, command: str = "python -m benchmarks") -> dict[str, str]:
    """Device, versions, commit, date and command."""
    cpu = _cpu_info("model name") or platform.processor() or "unknown"
    words = [Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]  # no path of this machine
    about = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu,
        "threads": str(torch.get_num_threads()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": _version("transformers"),
        "commit": _commit(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "command": " ".join([command, *words]),
    }
    if device.type == "cuda":
        tf32 = torch.backends.cuda.matmul.allow_tf32
        about |= {"cuda": torch.version.cuda or "?", "cpu": cpu, "products in fp32": "TF32" if tf32 else "IEEE fp32"}
    return about


def multiplies_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for products in bfloat16."""
    return device.type == "cuda" or any(name in _cpu_info("flags") for name in ("avx512_bf16", "amx_bf16"))


def count_operations(run: Callable[[], object]) -> float:
    """The operations of all matrix products of a call, two for each multiply-add."""
    counter = FlopCounterMode(display=False)
    # torch sees neither the insides of fused attention nor those of a graph
    with sdpa_kernel(SDPBackend.MATH), mock.patch.object(engine_module, "GRAPHED", 0), counter:
        run()
    return counter.get_total_flops()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu_info(field: str) -> str:
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")


def _commit() -> str:
    """The commit that is measured, with "+" if files differ from it."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=10", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
