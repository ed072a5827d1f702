"""How torch multiplies in the processes of the command line. The library leaves the settings of a process alone."""

from pathlib import Path

import torch

CPU_INFO = Path("/proc/cpuinfo")


def faster_products() -> None:
    """In this process, let oneDNN multiply matrices in float32 on CPUs of AMD, where torch's own choice (MKL) is slow.

    The setting allows oneDNN to round to bfloat16. oneDNN does that on CPUs with AMX alone, and torch on GPUs, so there
    it is not made. Gain (`make bench`): tagging 1.65× faster in float32 (docs/performance.md).
    """
    cpu = CPU_INFO.read_text(encoding="utf-8", errors="replace") if CPU_INFO.is_file() else ""
    if "AuthenticAMD" in cpu and "amx" not in cpu and not torch.cuda.is_available():
        torch.set_float32_matmul_precision("medium")
