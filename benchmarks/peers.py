"""`adapters` 1.3.0 as a contestant: a process in its own environment, which takes commands line by line."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks.harness import ROOT, NotMeasured
from benchmarks.reference import Release
from zgul.encoders.batches import Batch
from zgul.encoders.encoder import state_for_hub
from zgul.encoders.folder import config_for_hub

PYTHON = ROOT / ".venv-oracle" / "bin" / "python"


@contextmanager
def adapters_process(model: Release, batch: Batch) -> Iterator[Callable[[str], str]]:
    """Run `adapters` with the weights of this model and this batch, until the end of the block.

    Yields a function that sends a command (see adapters_peer.py) and returns the answer.
    """
    if not PYTHON.is_file():
        raise NotMeasured("`adapters` 1.3.0 is not here; `make oracle` makes its environment (.venv-oracle)")
    about = {
        "config": config_for_hub(model.encoder.config),
        "threads": torch.get_num_threads(),
        "device": str(batch.mask.device),
    }
    state = {f"encoder.{name}": value for name, value in state_for_hub(model.encoder).items()}
    state |= {name: value for name, value in model.state_dict().items() if name.startswith("layers.")}
    state |= {"input_ids": batch.input_ids, "mask": batch.mask}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
        save_file(tensors, path, metadata={"about": json.dumps(about)})
        command = [str(PYTHON), str(Path(__file__).with_name("adapters_peer.py")), str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None and process.stdout is not None

            def ask(command: str) -> str:
                print(command, file=process.stdin, flush=True)
                answer = process.stdout.readline().strip()  # type: ignore[union-attr]
                if not answer:
                    raise NotMeasured("the process of `adapters` ended; see its error above")
                return answer

            yield ask
