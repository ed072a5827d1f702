"""Encoders from folders, the Hugging Face cache and the hub, with small random models in the standard form."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    BertTokenizerFast,
    GPT2Config,
    GPT2Model,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from zgul import encoders
from zgul.encoders import tokenizer as unigram
from zgul.errors import ZgulError

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
WORDS = [["a", "ba", "cab"]]


def unigram_tokenizer():
    from tokenizers import Tokenizer

    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b", "c", "▁ba", "ab", "<mask>"]
    scores = [0.0, 0.0, 0.0, 0.0, -2.0, -3.0, -3.0, -3.0, -2.5, -2.5, 0.0]
    text = unigram.tokenizer_json(pieces, scores, {"\u00a0": " "}, unk_id=3)
    return unigram.wrap(tokenizer_object=Tokenizer.from_str(text), max_length=64)


def save_bert(folder: Path) -> BertModel:
    torch.manual_seed(0)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##a", "##b", "##c"]
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    model = BertForMaskedLM(BertConfig(vocab_size=len(pieces), max_position_embeddings=64, **SMALL))
    model.save_pretrained(folder)
    BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    return model.bert.eval()


def save_xlmr(folder: Path) -> XLMRobertaModel:
    torch.manual_seed(1)
    tokenizer = unigram_tokenizer()
    config = XLMRobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=66, pad_token_id=1, **SMALL)
    model = XLMRobertaModel(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.eval()


def states(model, tokenizer):
    with torch.no_grad():
        batch = tokenizer(WORDS, is_split_into_words=True, return_tensors="pt")
        return model(**batch).last_hidden_state


@pytest.mark.parametrize("save", [save_bert, save_xlmr])
def test_a_folder_gives_the_model_saved(save, tmp_path):
    saved = save(tmp_path / "model")
    model, tokenizer = encoders.load(tmp_path / "model")
    assert model.pooler is None and not model.training and tokenizer.is_fast
    assert model.config._attn_implementation == "sdpa"
    torch.testing.assert_close(states(model, tokenizer), states(saved, tokenizer))
    assert max(w for w in tokenizer(WORDS, is_split_into_words=True).word_ids(0) if w is not None) == 2
    half, _ = encoders.load(tmp_path / "model", dtype=torch.bfloat16)
    assert half.dtype == torch.bfloat16


def test_an_xlmr_from_a_folder_can_be_pruned(tmp_path):
    save_xlmr(tmp_path / "model")
    model, tokenizer = encoders.load(tmp_path / "model")
    pruned_model, pruned = encoders.prune(model, tokenizer, encoders.pieces_used(tokenizer, ["a", "ba", "cb"]))
    assert len(pruned) == len(tokenizer) - 1  # without "ab"
    text = [["ba", "cb"]]
    with torch.no_grad():
        before, after = (
            m(**t(text, is_split_into_words=True, return_tensors="pt")).last_hidden_state
            for m, t in ((model, tokenizer), (pruned_model, pruned))
        )
    assert torch.equal(before, after)


def test_other_architectures_are_refused(tmp_path):
    GPT2Model(GPT2Config(vocab_size=11, n_embd=8, n_layer=1, n_head=1)).save_pretrained(tmp_path)
    with pytest.raises(ZgulError, match="type 'gpt2'; zgul works with encoders of the types bert"):
        encoders.load(tmp_path)


def test_code_that_comes_with_a_model_is_never_run(tmp_path):
    (tmp_path / "trap.py").write_text("raise SystemExit('code was run')")
    trap = {"model_type": "trap", "auto_map": {"AutoConfig": "trap.Config", "AutoModel": "trap.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(trap))
    with pytest.raises(ZgulError, match="does not know by itself"):
        encoders.load(tmp_path)


def test_incomplete_folders(tmp_path):
    with pytest.raises(ZgulError, match=r"holds no complete encoder .*config\.json"):
        encoders.load(tmp_path)
    save_bert(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ZgulError, match="holds no complete encoder"):
        encoders.load(tmp_path / "model")
    weights.unlink()
    with pytest.raises(ZgulError, match="holds no complete encoder"):
        encoders.load(tmp_path / "model")


def without(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).unlink()
    return folder


def test_a_tokenizer_that_is_missing_is_not_made_up(tmp_path):
    save_xlmr(tmp_path / "xlmr")
    without(tmp_path / "xlmr", "tokenizer.json")
    with pytest.raises(ZgulError, match=r"holds no complete encoder .*tokenizer"):
        encoders.load(tmp_path / "xlmr")
    without(tmp_path / "xlmr", "tokenizer_config.json")
    with pytest.raises(ZgulError, match=r"neither tokenizer\.json nor sentencepiece\.bpe\.model"):
        encoders.load(tmp_path / "xlmr")
    save_bert(tmp_path / "bert")
    _, expected = encoders.load(tmp_path / "bert")
    without(tmp_path / "bert", "tokenizer.json", "tokenizer_config.json")
    _, tokenizer = encoders.load(tmp_path / "bert")  # as old models come
    assert tokenizer.get_vocab() == expected.get_vocab()
    without(tmp_path / "bert", "vocab.txt")
    with pytest.raises(ZgulError, match=r"neither tokenizer\.json nor vocab\.txt"):
        encoders.load(tmp_path / "bert")


@pytest.mark.parametrize("text", ["{}", "null", "[1]", '{"model": 5}', '{"added_tokens": [], "model": {}}', "{", ""])
@pytest.mark.parametrize("save", [save_bert, save_xlmr])
def test_a_damaged_tokenizer(save, text, tmp_path):
    save(tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").write_text(text)
    with pytest.raises(ZgulError, match=r"tokenizer\.json is damaged .*again"):
        encoders.load(tmp_path / "model")


def test_weights_that_lack_layers_are_not_made_up(tmp_path):
    save_bert(tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 3}))
    with pytest.raises(ZgulError, match="lack 16 tensors"):
        encoders.load(tmp_path / "model")


def test_pickled_code_is_not_run(tmp_path):
    save_bert(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()

    class Trap:
        def __reduce__(self):
            return exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",)

    torch.save({"trap": Trap()}, tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(ZgulError):  # which message depends on the version of transformers
        encoders.load(tmp_path / "model")
    assert not (tmp_path / "ran").exists()


def test_paths_that_do_not_exist(tmp_path):
    with pytest.raises(ZgulError, match="no such folder"):
        encoders.load(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(ZgulError, match="is a file"):
        encoders.load(tmp_path / "file")


def load_in_new_process(name: str, home: Path, **environment: str) -> str:
    """Prints the model's class or the ZgulError; settings of the hub are read at import, hence a process."""
    code = f"""
import zgul.encoders
from zgul.errors import ZgulError
try:
    print(type(zgul.encoders.load({name!r})[0]).__name__)
except ZgulError as error:
    print(error)
"""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_"))}
    settings = {**kept, "HF_HOME": str(home), **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=settings, check=True)
    return done.stdout


@pytest.mark.slow
def test_by_name_from_the_cache_without_network(tmp_path):
    save_bert(tmp_path / "model")
    repository = tmp_path / "hub" / "models--acme--tiny"
    commit = "0123456789abcdef0123456789abcdef01234567"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    shutil.copytree(tmp_path / "model", repository / "snapshots" / commit)
    assert load_in_new_process("acme/tiny", tmp_path, HF_HUB_OFFLINE="1") == "BertModel\n"
    assert load_in_new_process("acme/tiny", tmp_path, HF_ENDPOINT="http://127.0.0.1:9") == "BertModel\n"
    without(repository / "snapshots" / commit, "tokenizer.json", "tokenizer_config.json", "vocab.txt")
    message = load_in_new_process("acme/tiny", tmp_path, HF_HUB_OFFLINE="1")
    assert "neither tokenizer.json nor vocab.txt" in message, "a download that was broken off"


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_names_that_are_nowhere(tmp_path, environment):
    message = load_in_new_process("acme/typo", tmp_path, **environment)
    assert message.startswith("No encoder called 'acme/typo'. Tried: a folder of that name")
    assert "HF_HUB_OFFLINE" in message and "spelling" in message


def test_loading_prints_nothing_and_leaves_the_settings_of_transformers(tmp_path, capfd):
    from transformers.utils import logging

    save_bert(tmp_path / "bert")  # with a masked-LM head, which is left out
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    capfd.readouterr()
    encoders.load(tmp_path / "bert")
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
