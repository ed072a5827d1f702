"""`adapters` in its own environment, as a process that is asked for one forward pass at a time.

    .venv-oracle/bin/python benchmarks/adapters_peer.py MODEL.safetensors

MODEL holds a ``reference.StackFuse``, its inputs and the encoder's configuration. Commands come as lines: ``run`` is
answered by seconds, ``output FILE`` writes the hidden states, and the end of the input ends the process. Imports
nothing of this project: its environment has an older transformers.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

import torch
from adapters.composition import Fuse, Stack
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import BertConfig

import adapters


def build(state: dict[str, Tensor], shape: dict[str, Any]) -> Any:
    """A BERT with Stack(Fuse(N), task) whose weights are these."""
    model = adapters.BertAdapterModel(BertConfig(**shape))
    width = shape["hidden_size"]
    count = len({name.split(".")[3] for name in state if name.startswith("layers.0.adapters.")})
    names = [f"language{n}" for n in range(count)]
    parts = {name: f"adapters.{n}" for n, name in enumerate(names)} | {"task": "task"}
    for name, key in parts.items():
        size = len(state[f"layers.0.{key}.down.weight"])
        config = adapters.SeqBnConfig(reduction_factor=width // size, non_linearity="relu")
        model.add_adapter(name, config=config)
    fused = Fuse(*names)
    model.add_adapter_fusion(fused)
    encoder = {
        name.removeprefix("encoder.model."): value for name, value in state.items() if name.startswith("encoder.model.")
    }
    missing = model.base_model.load_state_dict(encoder, strict=False)
    assert not missing.unexpected_keys, missing.unexpected_keys
    others = ("adapter", "pooler", "prompt_tuning")  # filled below, unused, the word embeddings again
    assert all(any(other in key for other in others) for key in missing.missing_keys), missing.missing_keys
    with torch.no_grad():
        for index, layer in enumerate(model.base_model.encoder.layer):
            for name, key in parts.items():
                adapter = layer.output.adapters[name]
                _fill(adapter.adapter_down[0], state, f"layers.{index}.{key}.down")
                _fill(adapter.adapter_up, state, f"layers.{index}.{key}.up")
            fusion = layer.output.adapter_fusion_layer[fused.name]
            for part in ("query", "key", "value"):
                _fill(getattr(fusion, part), state, f"layers.{index}.{part}")
    model.set_active_adapters(Stack(fused, "task"))
    return model.base_model.eval()


def _fill(linear: Any, state: dict[str, Tensor], name: str) -> None:
    linear.weight.copy_(state[f"{name}.weight"])
    if linear.bias is not None:
        linear.bias.copy_(state[f"{name}.bias"])


def main(path: str) -> None:
    logging.getLogger("adapters").setLevel(logging.ERROR)
    with safe_open(path, framework="pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
        told = json.loads(file.metadata()["about"])
    torch.set_num_threads(told["threads"])
    device = torch.device(told["device"])
    dtype = getattr(torch, told["dtype"])
    ids, mask = state.pop("input_ids").to(device), state.pop("mask").long().to(device)
    model = build(state, told["config"]).to(device, dtype)

    @torch.no_grad()
    def run() -> Tensor:
        out: Tensor = model(ids, attention_mask=mask).last_hidden_state
        if device.type == "cuda":
            torch.cuda.synchronize()
        return out

    print(f"adapters {adapters.__version__}", flush=True)
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        if command == "output":
            save_file({"hidden": run().float().cpu().contiguous()}, rest)
            print("written", flush=True)
        elif command == "run":
            started = time.perf_counter()
            run()
            print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
