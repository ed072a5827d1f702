"""`adapters` in its own environment: a process that runs one forward pass at a time.

    .venv-oracle/bin/python benchmarks/adapters_peer.py MODEL.safetensors

MODEL holds the weights of a ``reference.Release``, its inputs and the encoder's configuration. Commands come as lines:
``version`` is answered by the version, ``run`` after a pass, and ``output`` by the path of a file with hidden states.
This file imports nothing of zgul, because the environment of `adapters` has an older transformers.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import torch
from adapters.composition import Fuse, Stack
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import BertConfig

import adapters


def build(state: dict[str, Tensor], shape: dict[str, Any]) -> Any:
    """A BERT with Stack(Fuse(N), task) and these weights."""
    model = adapters.BertAdapterModel(BertConfig(**shape))
    count = len({name.split(".")[3] for name in state if name.startswith("layers.0.adapters.")})
    names = [f"language{n}" for n in range(count)]
    parts = {name: f"adapters.{n}" for n, name in enumerate(names)} | {"task": "task"}
    for name, key in parts.items():
        factor = shape["hidden_size"] // len(state[f"layers.0.{key}.down.weight"])
        model.add_adapter(name, config=adapters.SeqBnConfig(reduction_factor=factor, non_linearity="relu"))
    fused = Fuse(*names)
    model.add_adapter_fusion(fused)
    encoder = {name.removeprefix("encoder."): value for name, value in state.items() if name.startswith("encoder.")}
    missing = model.base_model.load_state_dict(encoder, strict=False)
    others = ("adapter", "pooler", "prompt_tuning")  # filled below, not used, and the word embeddings again
    left = [key for key in missing.missing_keys if not any(other in key for other in others)]
    assert not left and not missing.unexpected_keys, (left, missing.unexpected_keys)
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


@torch.no_grad()
def main(path: Path) -> None:
    logging.getLogger("adapters").setLevel(logging.ERROR)
    with safe_open(path, framework="pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
        about = json.loads(file.metadata()["about"])
    torch.set_num_threads(about["threads"])
    device = torch.device(about["device"])
    ids, mask = state.pop("input_ids").to(device), state.pop("mask").long().to(device)
    model = build(state, about["config"]).to(device)
    for command in map(str.strip, sys.stdin):
        answer = "done"
        if command == "version":
            answer = f"adapters {adapters.__version__}"
        else:
            hidden = model(ids, attention_mask=mask).last_hidden_state
        if device.type == "cuda":
            torch.cuda.synchronize()
        if command == "output":
            answer = str(path.with_name("hidden.safetensors"))
            save_file({"hidden": hidden.cpu().contiguous()}, answer)
        print(answer, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
