"""`adapters` 1.3.0 as a contestant: a process in an environment of its own, spoken to line by line."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.harness import ROOT, NotMeasured
from benchmarks.reference import StackFuse
from zgul.corpora.encode import Batch

PYTHON = ROOT / ".venv-oracle" / "bin" / "python"


class AdaptersProcess:
    """A running peer."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder = process, folder
        self.version = self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise NotMeasured(f"the process of `adapters` ended with code {self.process.wait()}; see its error above")
        return line

    def ask(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._answer()

    def seconds(self) -> float:
        """One forward pass."""
        return float(self.ask("run"))

    def hidden(self) -> Tensor:
        """What it computes."""
        from safetensors.torch import load_file

        path = self.folder / "hidden.safetensors"
        self.ask(f"output {path}")
        hidden: Tensor = load_file(path)["hidden"]
        return hidden


@contextmanager
def adapters_process(model: StackFuse, batch: Batch, dtype: torch.dtype) -> Iterator[AdaptersProcess]:
    """`adapters` with the weights of this model and this batch, until the end of the block."""
    if not PYTHON.is_file():
        raise NotMeasured("`adapters` 1.3.0 is not here; `make oracle` makes its environment (.venv-oracle)")
    from safetensors.torch import save_file

    device = batch.input_ids.device
    about = {
        "config": {key: getattr(model.encoder.model.config, key) for key in _CONFIG},
        "threads": torch.get_num_threads(),
        "device": str(device),
        "dtype": str(dtype).removeprefix("torch."),
    }
    state = {name: value.float().cpu().contiguous() for name, value in model.state_dict().items()}
    state |= {"input_ids": batch.input_ids.cpu().contiguous(), "mask": batch.mask.cpu().contiguous()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file({name: value.clone() for name, value in state.items()}, path, metadata={"about": json.dumps(about)})
        process = subprocess.Popen(
            [str(PYTHON), str(Path(__file__).with_name("adapters_peer.py")), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield AdaptersProcess(process, Path(folder))
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)


_CONFIG = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "hidden_act",
    "pad_token_id",
)
