"""The systems, their settings, and the calls of their programs, each in its own environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers import ROOT
from zgul.errors import ZgulError
from zgul.languages.groups import Group

HERE = Path(__file__).parent
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
OURS = ("zgul", "sft")  # run by zgul itself
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "TOKENIZERS_PARALLELISM"), "1"
)


@dataclass(frozen=True)
class System:
    """A system of the table."""

    name: str
    title: str
    worker: str
    options: dict[str, dict[str, Any]]  # settings, pos, ner, groups

    def settings(self, group: Group) -> dict[str, Any]:
        """What it is trained with on the sources of a group."""
        own = self.options.get("groups", {}).get(group.name, {})
        return self.options.get("settings", {}) | self.options.get(group.task, {}) | own

    def call(self, *arguments: str, core: int | None = None, log: Path | None = None) -> dict[str, Any]:
        """Run the system's program, on one core if one is named, and return what it measured."""
        python = Path(sys.executable) if self.name in OURS else PYTHON
        if not python.is_file():
            raise ZgulError(f"{self.title} is not installed. Run: make peers (it makes .venv-peers)")
        command = [str(python), str(HERE / "workers" / self.worker), *arguments]
        place = os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT / "src") if self.name in OURS else ""}
        pin = (lambda: os.sched_setaffinity(0, {core})) if core is not None else None
        done = subprocess.run(command, capture_output=True, text=True, env=place, preexec_fn=pin, check=False)
        if log is not None:
            log.write_text(done.stdout + done.stderr, encoding="utf-8")
        if done.returncode:
            raise ZgulError(f"{self.title} failed: {done.stderr.strip()[-500:]}")
        result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return result


def load_systems(path: Path = HERE / "systems.toml") -> dict[str, System]:
    """All systems, in the order of the table."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: System(name, own.pop("title"), own.pop("worker"), own) for name, own in found.items()}


def size_on_disk(path: Path) -> int:
    """The bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
