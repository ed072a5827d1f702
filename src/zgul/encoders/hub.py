"""BERT- and XLM-R-like encoders from a folder, the Hugging Face cache or the hub.

Code that comes with a model is never run, and weights are read as safetensors or with ``weights_only``.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zgul.errors import ZgulError

# One layout: embeddings, then encoder.layer[i] with attention and feed-forward; that is what adapters need.
MODEL_TYPES = ("bert", "roberta", "xlm-roberta", "camembert")


def load(name: str) -> tuple[Any, Any]:
    """(model without pooler in fp32, fast tokenizer) of a folder, or of a name in the cache or on the hub."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _from_folder(folder)
    if folder.exists():
        raise ZgulError(f"{name} is a file; an encoder is a folder, a hub name or a .q4.safetensors file.")
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise ZgulError(f"{name}: no such folder.")
    try:  # the local copy first: the same result every time, and no network needed
        return _load(name, local_files_only=True)
    except OSError:
        return _from_hub(name)


def _from_folder(folder: Path) -> tuple[Any, Any]:
    from safetensors import SafetensorError

    try:
        (folder / "config.json").open().close()  # transformers' own message does not say what is missing
        return _load(str(folder), local_files_only=True)
    except (OSError, ValueError, SafetensorError) as error:
        raise ZgulError(
            f"{folder} holds no complete encoder ({_first_line(error)}). It needs config.json, "
            "model.safetensors and tokenizer.json, as save_pretrained of model and tokenizer writes them."
        ) from error


def _from_hub(name: str) -> tuple[Any, Any]:
    try:
        return _load(name, local_files_only=False)
    except OSError as error:
        raise ZgulError(
            f"No encoder called {name!r}. Tried: a folder of that name, the Hugging Face cache, and the "
            f"hub ({_first_line(error)}). Check the spelling (such as 'embedded', 'xlm-roberta-base' or "
            "'bert-base-multilingual-cased'); to download, a network is needed and HF_HUB_OFFLINE must be unset."
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _load(source: str, *, local_files_only: bool) -> tuple[Any, Any]:
    import torch
    from transformers import AutoConfig, AutoModel

    options = {"local_files_only": local_files_only, "trust_remote_code": False}
    try:
        config = AutoConfig.from_pretrained(source, **options)
    except ValueError as error:  # no model type, or one that needs its own code
        raise _not_supported(source, "a model that transformers does not know by itself") from error
    if config.model_type not in MODEL_TYPES:
        raise _not_supported(source, f"a model of the type {config.model_type!r}")
    tokenizer = _load_tokenizer(source, options)
    if not tokenizer.is_fast:
        raise ZgulError(f"{source} has no fast tokenizer (tokenizer.json), which zgul needs to align words.")
    try:
        with _quiet(bars=not local_files_only):  # a download shows how far it is
            model, loaded = AutoModel.from_pretrained(
                source,
                config=config,
                add_pooling_layer=False,
                attn_implementation="sdpa",
                dtype=torch.float32,
                weights_only=True,
                output_loading_info=True,
                **options,
            )
    except pickle.UnpicklingError as error:
        raise ZgulError(
            f"{source}: the weights are a pickle that holds more than numbers, and loading it could run code. "
            "Ask for a model.safetensors."
        ) from error
    if loaded["missing_keys"]:  # they would be random numbers
        raise ZgulError(f"{source}: the weights lack {len(loaded['missing_keys'])} tensors of its config.json.")
    return model, tokenizer


def _load_tokenizer(source: str, options: dict[str, bool]) -> Any:
    """The tokenizer; transformers itself makes an empty one up where there is no file of it."""
    from transformers import AutoTokenizer
    from transformers.utils import has_file

    def there(name: str) -> bool:  # in the folder or in the cache, where a download has put it
        return bool(has_file(source, name, local_files_only=True))

    try:
        tokenizer = AutoTokenizer.from_pretrained(source, use_fast=True, **options)
    except OSError:
        raise
    except Exception as error:  # of many kinds: whatever the parsers of the files stumble over
        if not there("tokenizer.json"):
            raise OSError(f"no tokenizer.json, and the tokenizer needs it: {_first_line(error)}") from error
        raise ZgulError(
            f"{source}: tokenizer.json is damaged ({type(error).__name__}: {_first_line(error)}); "
            "fetch it, or save the tokenizer, again."
        ) from error
    others = [name for kind, name in tokenizer.vocab_files_names.items() if kind != "tokenizer_file"]
    if not there("tokenizer.json") and not (others and all(map(there, others))):
        raise OSError(f"no tokenizer: neither tokenizer.json nor {' and '.join(others) or 'a vocabulary'}")
    return tokenizer


@contextmanager
def _quiet(*, bars: bool) -> Iterator[None]:
    """Without transformers' report on tensors that are left out on purpose and, unless ``bars``, without its bars."""
    from transformers.utils import logging

    verbosity, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if not bars:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()


def _not_supported(source: str, found: str) -> ZgulError:
    return ZgulError(f"{source} is {found}; zgul works with encoders of the types {', '.join(MODEL_TYPES)}.")
