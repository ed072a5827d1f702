"""Where results were made: the machine and the commit, without anything that says whose machine it is."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import zgul


def machine(device: str) -> str:
    """Processor or GPU, and the versions that matter."""
    import torch

    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {os.cpu_count()} cores"
    return f"{name}, torch {torch.__version__}, Python {platform.python_version()}"


def commit() -> str:
    """The commit of the source tree, "" outside one; marked where files were changed since."""
    root = Path(zgul.__file__).parent

    def git(*arguments: str) -> str:
        found = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=20, check=True)
        return found.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".")
        return git("rev-parse", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""
