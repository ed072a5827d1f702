"""Record the outputs of `adapters` 1.3.0, with which the tests compare zgul. Run it with ``make oracle``.

`adapters` needs an older transformers than zgul's tests, so it has an environment of its own. The tests read the
recordings in ``tests/adapters/oracle``: for a small random BERT and XLM-R

    MODEL.safetensors       encoder, fusion layers, inputs; hidden states, masked-LM scores and fusion weights
    MODEL/ADAPTER/          the folders that `adapters` saved

This script also checks the other direction: `adapters` loads every folder that zgul writes and computes the same.
"""

from __future__ import annotations

import copy
import json
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from adapters.composition import Fuse, Stack
from safetensors.torch import save_file
from torch import Tensor
from transformers import BertConfig, XLMRobertaConfig

import adapters
from zgul.adapters.adapterhub import read_adapter, write_adapter

OUT = Path(__file__).parents[1] / "tests" / "adapters" / "oracle"
SIZES: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 16,
}
MODELS = {
    "bert": (adapters.BertAdapterModel, BertConfig(**SIZES)),
    "xlm-roberta": (adapters.XLMRobertaAdapterModel, XLMRobertaConfig(**SIZES, type_vocab_size=1)),
}
# The forms of AdapterHub's wiki adapters. The last one has two rarer options.
LANGUAGES = {
    "en": adapters.SeqBnInvConfig(reduction_factor=2, non_linearity="relu"),
    "de": adapters.SeqBnInvConfig(reduction_factor=2, non_linearity="gelu_new"),
    "am": adapters.SeqBnInvConfig(reduction_factor=16, non_linearity="relu"),
    "is": adapters.SeqBnInvConfig(reduction_factor={"0": 2, "default": 5}, non_linearity="gelu", ln_before=True),
}
TASK = adapters.SeqBnConfig(reduction_factor=3)
PICKLED = ("am", "is", "old")  # `adapters` itself cannot save a norm before the bottleneck as safetensors
FUSED = Fuse("en", "de", "am", "is")
SETUPS = {
    **{f"stack.{name}": Stack(name) for name in (*LANGUAGES, "old")},
    **{f"stack.{name}.task": Stack(name, "task") for name in LANGUAGES},
    "task": Stack("task"),
    "fuse": FUSED,
    "fuse.task": Stack(FUSED, "task"),
}


def main() -> None:
    logging.getLogger("adapters").setLevel(logging.ERROR)  # it warns of inactive adapters when they are active
    shutil.rmtree(OUT, ignore_errors=True)
    for seed, name in enumerate(MODELS):
        record(name, seed)
        print(f"{name}: recorded, and what zgul writes is read back the same")


def record(name: str, seed: int) -> None:
    (OUT / name).mkdir(parents=True)
    torch.manual_seed(seed)
    model, tensors = new_model(name)
    prefix = model.base_model_prefix
    for language, config in LANGUAGES.items():
        model.add_adapter(language, config=config)
    model.add_adapter("task", config=TASK)
    model.add_adapter_fusion(FUSED)
    randomise(model, ("adapter", "invertible"))
    for adapter in (*LANGUAGES, "task"):
        safe = adapter not in PICKLED
        model.save_adapter(OUT / name / adapter, adapter, with_head=False, use_safetensors=safe)
    make_old(OUT / name / "de", OUT / name / "old", prefix)
    model.load_adapter(str(OUT / name / "old"), load_as="old", with_head=False)

    for i, layer in enumerate(model.base_model.encoder.layer):
        fusion = layer.output.adapter_fusion_layer[FUSED.name].state_dict()
        tensors |= {f"fusion.{i}.{key}": value.clone() for key, value in fusion.items()}
    for setup, active in SETUPS.items():
        model.set_active_adapters(active)
        tensors[f"hidden.{setup}"] = hidden_states(model, tensors)
        if "task" not in setup and "fuse" not in setup:
            tensors[f"mlm.{setup}"] = scores(model, tensors)
    model.set_active_adapters(FUSED)
    tensors |= fusion_weights(model, tensors)
    save_file(tensors, OUT / f"{name}.safetensors", metadata={"config": json.dumps(model.config.to_diff_dict())})
    check_way_back(name, tensors)


def new_model(name: str) -> tuple[Any, dict[str, Tensor]]:
    """The encoder with masked-LM head, and what a test needs to build it again and feed it."""
    cls, config = MODELS[name]
    model = cls(copy.deepcopy(config))  # a model writes its heads into it
    model.add_masked_lm_head("mlm")
    model.eval()
    randomise(model, ("weight", "bias"))
    encoder = model.base_model.state_dict()
    tensors = {
        f"encoder.{key}": value.clone()
        for key, value in encoder.items()
        if key.startswith(("embeddings.", "encoder."))  # no pooler
    }
    tensors |= {f"head.{key}": value.clone() for key, value in model.heads["mlm"].state_dict().items()}
    ids = torch.randint(5, config.vocab_size, (3, 9))
    mask = torch.arange(9)[None] < torch.tensor([9, 7, 4])[:, None]
    tensors["input_ids"] = ids.masked_fill(~mask, config.pad_token_id)
    tensors["mask"] = mask
    return model, tensors


@torch.no_grad()
def randomise(model: Any, parts: tuple[str, ...]) -> None:
    """Set random weights without identities and zeros, so that every part changes the output."""
    for key, parameter in model.named_parameters():
        if any(part in key for part in parts):
            if parameter.dim() == 1 and key.endswith("weight"):  # a norm's
                parameter.uniform_(0.5, 1.5)
            else:  # fusion's scores are products of two matrices: smaller, so that not every softmax is one-hot
                parameter.normal_(std=0.1 if "fusion" in key else 0.25)


def make_old(source: Path, target: Path, prefix: str) -> None:
    """The same adapter as the first adapter-transformers would have saved it."""
    from safetensors.torch import load_file

    shutil.copytree(source, target)
    config = json.loads((target / "adapter_config.json").read_text())
    del config["version"]
    keep = ("mh_adapter", "output_adapter", "ln_before", "ln_after", "original_ln_before", "original_ln_after")
    keep += ("residual_before_ln", "adapter_residual_before_ln", "reduction_factor")
    config["config"] = {key: config["config"][key] for key in keep} | {
        "non_linearity": "gelu",
        "invertible_adapter": {"block_type": "nice", "reduction_factor": 2},
    }
    config |= {"type": "text_lang"}
    (target / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True))
    tensors = {
        key.replace(".adapters.", ".layer_text_lang_adapters.").replace(
            f"{prefix}.invertible_adapters", f"{prefix}.invertible_lang_adapters"
        ): value
        for key, value in load_file(target / "adapter.safetensors").items()
    }
    (target / "adapter.safetensors").unlink()
    torch.save(tensors, target / "pytorch_adapter.bin", _use_new_zipfile_serialization=False)


@torch.no_grad()
def hidden_states(model: Any, tensors: dict[str, Tensor]) -> Tensor:
    output = model.base_model(tensors["input_ids"], attention_mask=tensors["mask"].long())
    return output.last_hidden_state


@torch.no_grad()
def scores(model: Any, tensors: dict[str, Tensor]) -> Tensor:
    return model(tensors["input_ids"], attention_mask=tensors["mask"].long(), head="mlm").logits


@torch.no_grad()
def fusion_weights(model: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    output = model.base_model(
        tensors["input_ids"],
        attention_mask=tensors["mask"].long(),
        output_adapter_fusion_attentions=True,
    )
    layers = output.adapter_fusion_attentions[FUSED.name]
    return {f"weights.{layer}": torch.as_tensor(attention["output_adapter"]) for layer, attention in layers.items()}


def check_way_back(name: str, recorded: dict[str, Tensor]) -> None:
    """Check that `adapters` computes the same with the files that zgul writes, in both forms."""
    for language in (*LANGUAGES, "old"):
        for safe in (True, False):
            torch.manual_seed(list(MODELS).index(name))
            model, tensors = new_model(name)
            with tempfile.TemporaryDirectory() as folder:
                adapter = read_adapter(OUT / name / language, "written")
                write_adapter(adapter, folder, model_type=name, safe=safe)
                missing: dict[str, list[str]] = {}
                model.load_adapter(folder, loading_info=missing, with_head=False, use_safetensors=safe)
            assert not missing["missing_keys"] and not missing["unexpected_keys"], (language, missing)
            model.set_active_adapters(Stack("written"))
            got = hidden_states(model, tensors)
            torch.testing.assert_close(got, recorded[f"hidden.stack.{language}"], rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
