"""Encoders from folders, the Hugging Face cache and the hub, with small random models in the standard form."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.testing import assert_close
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertTokenizerFast,
    GPT2Config,
    GPT2Model,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from zgul import encoders
from zgul.encoders.encoder import Encoder
from zgul.encoders.tokenizer import PieceTokenizer, tokenizer_json
from zgul.errors import ZgulError

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
WORDS = ["a", "ba", "cab"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##a", "##b", "##c"]


def save_bert(folder: Path) -> Any:
    """With a masked-LM head, as mBERT comes."""
    torch.manual_seed(0)
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    model = BertForMaskedLM(BertConfig(vocab_size=len(PIECES), max_position_embeddings=64, **SMALL))
    model.save_pretrained(folder)
    BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    return model.bert.eval()


def save_xlmr(folder: Path) -> Any:
    torch.manual_seed(1)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b", "c", "▁ba", "ab", "<mask>"]
    scores = [0.0, 0.0, 0.0, 0.0, -2.0, -3.0, -3.0, -3.0, -2.5, -2.5, 0.0]
    backend = Tokenizer.from_str(tokenizer_json(pieces, scores, {"\u00a0": " "}, unk_id=3))
    model = XLMRobertaModel(
        XLMRobertaConfig(vocab_size=len(pieces), max_position_embeddings=66, pad_token_id=1, **SMALL)
    )
    model.save_pretrained(folder)
    specials = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=backend, **specials).save_pretrained(folder)
    return model.eval()


def save_roberta(folder: Path) -> Any:
    """With byte-level pieces; "Ġ" stands for the blank before a word."""
    torch.manual_seed(2)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "Ġ", "a", "b", "c", "Ġa", "Ġb", "Ġba"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocabulary, [("Ġ", "a"), ("Ġ", "b"), ("Ġb", "a")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model = RobertaModel(RobertaConfig(vocab_size=len(pieces), max_position_embeddings=66, pad_token_id=1, **SMALL))
    model.save_pretrained(folder)
    specials = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=backend, **specials).save_pretrained(folder)
    return model.eval()


SAVE: dict[str, Callable[[Path], Any]] = {"bert": save_bert, "roberta": save_roberta, "xlm-roberta": save_xlmr}


def sentence(tokenizer: PieceTokenizer, words: list[str] = WORDS) -> torch.Tensor:
    ids = [piece for pieces in tokenizer.tokenise(words) for piece in pieces]
    return torch.tensor([[tokenizer.begin, *ids, tokenizer.end]])


@torch.no_grad()
def states(encoder: Encoder, ids: torch.Tensor) -> torch.Tensor:
    return encoder(ids, torch.ones_like(ids, dtype=torch.bool))


@torch.no_grad()
@pytest.mark.parametrize("kind", SAVE)
def test_a_folder_that_transformers_wrote_gives_the_model_saved(kind: str, tmp_path: Path) -> None:
    theirs = SAVE[kind](tmp_path / "model")
    encoder, tokenizer = encoders.load(tmp_path / "model")
    assert not encoder.training and encoder.words.weight.dtype == torch.float32
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    ids = sentence(tokenizer)
    assert_close(states(encoder, ids), theirs(ids).last_hidden_state)


@torch.no_grad()
@pytest.mark.parametrize("kind", SAVE)
def test_a_folder_that_we_wrote_loads_in_transformers(kind: str, tmp_path: Path) -> None:
    SAVE[kind](tmp_path / "theirs")
    encoder, tokenizer = encoders.load(tmp_path / "theirs")
    encoders.save(encoder, tokenizer, tmp_path / "ours")
    model = AutoModel.from_pretrained(tmp_path / "ours", add_pooling_layer=False).eval()
    assert model.config.model_type == kind
    ids = sentence(tokenizer)
    assert_close(model(ids).last_hidden_state, states(encoder, ids))
    read = AutoTokenizer.from_pretrained(tmp_path / "ours")
    for role, id_ in (("cls", tokenizer.begin), ("sep", tokenizer.end), ("pad", tokenizer.pad)):
        assert getattr(read, f"{role}_token_id") == id_
    assert read.mask_token_id == tokenizer.mask and read.unk_token_id == tokenizer.unknown
    again, same = encoders.load(tmp_path / "ours")
    assert again.config == encoder.config and torch.equal(states(again, ids), states(encoder, ids))
    assert same.tokenise(WORDS) == tokenizer.tokenise(WORDS)


def test_low_rank_updates_are_saved_inside_the_matrices(tmp_path: Path) -> None:
    save_bert(tmp_path / "model")
    encoder, tokenizer = encoders.load(tmp_path / "model")
    encoder.add_low_rank(2)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if name.endswith(".b"):
                parameter.normal_()
    encoders.save(encoder, tokenizer, tmp_path / "merged")
    ids = sentence(tokenizer)
    assert_close(states(encoders.load(tmp_path / "merged")[0], ids), states(encoder, ids), rtol=1e-4, atol=1e-4)


def test_words_are_cut_each_by_itself(tmp_path: Path) -> None:
    save_roberta(tmp_path / "roberta")
    _, tokenizer = encoders.load(tmp_path / "roberta")
    names = [[tokenizer.backend.id_to_token(n) for n in pieces] for pieces in tokenizer.tokenise(WORDS)]
    assert names == [["Ġa"], ["Ġba"], ["Ġ", "c", "a", "b"]], "every word with the blank before it"
    save_xlmr(tmp_path / "xlmr")
    _, tokenizer = encoders.load(tmp_path / "xlmr")
    names = [[tokenizer.backend.id_to_token(n) for n in pieces] for pieces in tokenizer.tokenise(WORDS)]
    assert names == [["▁", "a"], ["▁ba"], ["▁", "c", "ab"]]


def test_padding_and_truncation_of_a_sentence_encoder_are_switched_off(tmp_path: Path) -> None:
    save_bert(tmp_path / "model")
    expected = encoders.load(tmp_path / "model")[1].tokenise(["a", "cabcab"])
    backend = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    backend.enable_padding(length=8)
    backend.enable_truncation(2)
    backend.save(str(tmp_path / "model" / "tokenizer.json"))
    assert encoders.load(tmp_path / "model")[1].tokenise(["a", "cabcab"]) == expected


def test_special_pieces_may_have_other_names(tmp_path: Path) -> None:
    save_bert(tmp_path / "model")
    config = {"cls_token": {"content": "a"}, "sep_token": "b", "mask_token": None}
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps(config))
    _, tokenizer = encoders.load(tmp_path / "model")
    assert (tokenizer.begin, tokenizer.end, tokenizer.pad, tokenizer.mask) == (5, 6, 0, 4)


def test_a_tokenizer_without_specials_is_refused() -> None:
    with pytest.raises(ZgulError, match=r"the tokenizer has no begin piece\. zgul needs a BERT-like tokenizer"):
        PieceTokenizer.wrap(Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")))


def test_half_a_character_is_refused(tmp_path: Path) -> None:
    save_bert(tmp_path / "model")
    with pytest.raises(ZgulError, match=r"'\\ud800' is half of a character"):
        encoders.load(tmp_path / "model")[1].tokenise(["a", "b\ud800"])


def test_an_xlmr_from_a_folder_can_be_pruned(tmp_path: Path) -> None:
    save_xlmr(tmp_path / "model")
    encoder, tokenizer = encoders.load(tmp_path / "model")
    small, pruned = encoders.prune(encoder, tokenizer, encoders.pieces_used(tokenizer, ["a", "ba", "cb"]))
    assert pruned.backend.get_vocab_size() == tokenizer.backend.get_vocab_size() - 1, "without ab"
    words = ["ba", "cb"]
    before, after = states(encoder, sentence(tokenizer, words)), states(small, sentence(pruned, words))
    assert torch.equal(before, after)


# --- weights in other forms


def test_weights_in_several_files_with_an_index(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_bert(folder)
    expected, tokenizer = encoders.load(folder)
    whole = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    parts = {name: f"model-0000{n % 2}.safetensors" for n, name in enumerate(whole)}
    for part in set(parts.values()):
        save_file({name: whole[name] for name in whole if parts[name] == part}, folder / part)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    ids = sentence(tokenizer)
    assert torch.equal(states(encoders.load(folder)[0], ids), states(expected, ids))
    sizes = [(folder / part).stat().st_size for part in set(parts.values())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zgul.encoders.folder.MAX_BYTES", sum(sizes))
        encoders.load(folder)
        patch.setattr("zgul.encoders.folder.MAX_BYTES", sum(sizes) - 1)  # each file has fewer
        with pytest.raises(ZgulError, match=rf"model has {sum(sizes)} bytes in 2 files of weights; at most"):
            encoders.load(folder)
    (folder / part).unlink()
    with pytest.raises(ZgulError, match=rf"{part}: no such file"):
        encoders.load(folder)


@pytest.mark.parametrize("zipped", [True, False], ids=["torch 1.6 and later", "earlier"])
def test_weights_in_a_pickle(zipped: bool, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    theirs = save_bert(folder)
    (folder / "model.safetensors").unlink()
    tensors = {f"bert.{name}": value.half() for name, value in theirs.state_dict().items()}
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    encoder, tokenizer = encoders.load(folder)
    assert encoder.words.weight.dtype == torch.float32
    ids = sentence(tokenizer)
    with torch.no_grad():
        assert_close(states(encoder, ids), theirs(ids).last_hidden_state, rtol=0, atol=1e-2)


def test_pickled_code_is_not_run(tmp_path: Path) -> None:
    save_bert(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()

    class Trap:
        def __reduce__(self) -> Any:
            return exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",)

    torch.save({"trap": Trap()}, tmp_path / "model" / "pytorch_model.bin")
    with pytest.raises(ZgulError, match=r"more than plain tensors.*A pickle can run code"):
        encoders.load(tmp_path / "model")
    assert not (tmp_path / "ran").exists()


def test_code_that_comes_with_a_model_is_never_run(tmp_path: Path) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('code was run')")
    trap = {"model_type": "trap", "auto_map": {"AutoConfig": "trap.Config", "AutoModel": "trap.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(trap))
    with pytest.raises(ZgulError, match="of the type 'trap'"):
        encoders.load(tmp_path)


# --- what is missing or damaged


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    GPT2Model(GPT2Config(vocab_size=11, n_embd=8, n_layer=1, n_head=1)).save_pretrained(tmp_path)
    with pytest.raises(ZgulError, match=r"type 'gpt2'\. zgul works with bert, roberta, xlm-roberta, camembert"):
        encoders.load(tmp_path)


def test_incomplete_folders(tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match=r"config\.json cannot be read \(No such file"):
        encoders.load(tmp_path)
    save_bert(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ZgulError, match="not a complete safetensors file"):
        encoders.load(tmp_path / "model")
    weights.unlink()
    with pytest.raises(ZgulError, match=r"holds no complete encoder \(no model\.safetensors\)"):
        encoders.load(tmp_path / "model")


@pytest.mark.parametrize("kind", SAVE)
def test_a_tokenizer_that_is_missing_is_not_made_up(kind: str, tmp_path: Path) -> None:
    SAVE[kind](tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()
    with pytest.raises(ZgulError, match=r"has no tokenizer\.json.*AutoTokenizer\.from_pretrained\(NAME\)"):
        encoders.load(tmp_path / "model")


@pytest.mark.parametrize("text", ["{}", "null", "[1]", '{"model": 5}', '{"added_tokens": [], "model": {}}', "{", ""])
def test_a_damaged_tokenizer(text: str, tmp_path: Path) -> None:
    save_bert(tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").write_text(text)
    with pytest.raises(ZgulError, match=r"tokenizer\.json is damaged .*again"):
        encoders.load(tmp_path / "model")


def test_a_tokenizer_that_makes_its_library_panic(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    contents = json.loads((folder / "tokenizer.json").read_text())
    contents["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    (folder / "tokenizer.json").write_text(json.dumps(contents))
    with pytest.raises(ZgulError, match=r"tokenizer\.json is damaged"):
        encoders.load(folder)


def test_weights_that_are_complex_numbers(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith(WORDS_TABLE))
    save_file(tensors | {name: tensors[name].to(torch.complex64)}, folder / "model.safetensors")
    with pytest.raises(ZgulError, match=f"{WORDS_TABLE} is missing"):
        encoders.load(folder)


def test_a_tokenizer_of_another_encoder(tmp_path: Path) -> None:
    save_bert(tmp_path / "model")
    save_roberta(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "tokenizer.json", tmp_path / "model")
    with pytest.raises(ZgulError, match=r"tokenizer\.json has more pieces than config\.json says, 11"):
        encoders.load(tmp_path / "model")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "model"
    save_bert(folder)
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 3}, "config.json says 3 layers, and the weights have fewer"),
        ({"num_hidden_layers": 10_000_000}, "and the weights have fewer"),
        ({"hidden_size": 1_000_000}, r"word_embeddings.weight is \[11, 32\], config.json says \[11, 1000000\]"),
        ({"intermediate_size": 10_000_000}, r"intermediate.dense.weight is \[64, 32\]"),
        ({"max_position_embeddings": 10_000_000}, r"position_embeddings.weight is \[64, 32\]"),
        ({"max_position_embeddings": 2}, "leaves no room for a word"),
        ({"hidden_size": 10**9}, "hidden_size in config.json is 1000000000, not a whole number up to 10,000,000"),
        ({"hidden_size": "32"}, "hidden_size in config.json is '32'"),
        ({"vocab_size": None}, "vocab_size in config.json is None"),
        ({"num_hidden_layers": 0}, "num_hidden_layers in config.json is 0"),
        ({"num_attention_heads": 0}, "num_attention_heads in config.json is 0"),
        ({"num_attention_heads": 5}, "hidden_size is no multiple of num_attention_heads"),
        ({"type_vocab_size": True}, "type_vocab_size in config.json is True"),
        ({"layer_norm_eps": None}, "layer_norm_eps in config.json is None, not a small number"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps in config.json is 'small'"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps in config.json is nan"),
        ({"hidden_act": "silu"}, "activation 'silu' is not one of gelu, relu"),
        ({"position_embedding_type": "relative_key"}, "has 'relative_key' positions. zgul supports absolute ones only"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_by_its_field(
    bert: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ZgulError, match=message):
        encoders.load(folder)


@pytest.mark.parametrize("model_type", ["roberta", "xlm-roberta", "camembert"])
def test_a_configuration_may_leave_out_what_transformers_knows(model_type: str, tmp_path: Path) -> None:
    save_xlmr(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    for name in ("pad_token_id", "layer_norm_eps", "hidden_act", "type_vocab_size"):
        config.pop(name, None)
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | {"model_type": model_type}))
    encoder, _ = encoders.load(tmp_path / "model")
    assert encoder.config.first_position == 2 and encoder.config.pad == 1


def damage_index(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "model.safetensors.index.json").write_text(text)


class Call:
    """Pickles to a call."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def damage_pickle(value: Any) -> Callable[[Path], object]:
    return lambda folder: torch.save(value, folder / "pytorch_model.bin")


def damage_bytes(data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "pytorch_model.bin").write_bytes(data)


WORDS_TABLE = "embeddings.word_embeddings.weight"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_index("[]"), "must contain a JSON object"),
        (damage_index('{"weight_map": [1]}'), "has no weight_map"),
        (damage_index("{}"), "has no weight_map"),
        (damage_index('{"weight_map": {"a": "../../x"}}'), r"model/x: no such file"),
        (damage_pickle([1]), "not a dictionary of named tensors"),
        (damage_pickle({1: torch.zeros(2)}), "not a dictionary of named tensors"),
        (damage_pickle({WORDS_TABLE: "x"}), "not a dictionary of named tensors"),
        (damage_pickle({WORDS_TABLE: torch.zeros(11, 32).to_sparse()}), "more than plain tensors"),
        (damage_pickle({WORDS_TABLE: Call(bytearray, 3 * 10**9)}), "more than plain tensors.*bytearray"),
        (damage_bytes(b""), "is damaged"),
        (damage_bytes(b"nothing"), "is damaged"),
        (damage_bytes(pickle.dumps({"a": 1})), "is damaged"),
    ],
)
def test_damaged_weights(bert: Path, tmp_path: Path, damage: Callable[[Path], object], message: str) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    (folder / "model.safetensors").unlink()
    damage(folder)
    with warnings.catch_warnings(), pytest.raises(ZgulError, match=message):
        warnings.simplefilter("ignore")  # of torch, that a pickle has a strange protocol
        encoders.load(folder)


def test_a_small_pickle_that_claims_gigabytes_is_refused(bert: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bert, tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 10_000_000}))
    tensors[f"bert.{WORDS_TABLE}"] = torch.zeros(1, 1, dtype=torch.half).expand(10_000_000, 32)
    torch.save(tensors, folder / "pytorch_model.bin")
    assert (folder / "pytorch_model.bin").stat().st_size < 200_000
    with pytest.raises(ZgulError, match="declares a size of 10,000,000"):
        encoders.load(folder)


def test_paths_that_do_not_exist(tmp_path: Path) -> None:
    for name in (str(tmp_path / "nothing"), "./nothing", "~/no/such", "a/b/c", "..\\x"):
        with pytest.raises(ZgulError, match="no such folder"):
            encoders.load(name)
    (tmp_path / "file").touch()
    with pytest.raises(ZgulError, match=r"is a file\. An encoder is a folder"):
        encoders.load(tmp_path / "file")


# --- by name

LOAD = """
import sys, zgul.encoders
from zgul.errors import ZgulError
for name in sys.argv[1:]:
    try:
        print(type(zgul.encoders.load(name)[0]).__name__)
    except ZgulError as error:
        print(error)
print("transformers" in sys.modules)
"""


def load_in_new_process(*names: str, home: Path, **environment: str) -> list[str]:
    """Print the class of each encoder or the ZgulError. Settings of the hub are read at import, hence a process."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_"))}
    settings = {**kept, "HF_HOME": str(home), **environment}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *names], capture_output=True, text=True, env=settings, check=True
    )
    if environment.get("HF_HUB_OFFLINE"):
        assert not done.stderr, "nothing is printed"
    return done.stdout.splitlines()


def put_into_cache(folder: Path, home: Path, name: str) -> Path:
    """Copy a model to where huggingface_hub keeps a download of it."""
    repository = home / "hub" / f"models--{name.replace('/', '--')}"
    commit = "0123456789abcdef0123456789abcdef01234567"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    return Path(shutil.copytree(folder, repository / "snapshots" / commit))


def test_by_name_from_the_cache_without_network(tmp_path: Path) -> None:
    save_bert(tmp_path / "model")
    put_into_cache(tmp_path / "model", tmp_path, "acme/tiny")
    broken = put_into_cache(tmp_path / "model", tmp_path, "acme/broken")
    (broken / "tokenizer.json").unlink()
    found = load_in_new_process("acme/tiny", "acme/broken", "acme/typo", home=tmp_path, HF_HUB_OFFLINE="1")
    assert found[0] == "Encoder"
    assert "has no tokenizer.json" in found[1], "a download that was broken off"
    assert found[2].startswith("No encoder called 'acme/typo'. Tried: a folder of that name")
    assert "HF_HUB_OFFLINE" in found[2] and "spelling" in found[2]
    assert found[-1] == "False", "transformers is not needed"


@pytest.mark.slow
def test_by_name_when_the_hub_cannot_be_reached(tmp_path: Path) -> None:
    save_bert(tmp_path / "model")
    put_into_cache(tmp_path / "model", tmp_path, "acme/tiny")
    found = load_in_new_process("acme/tiny", "acme/typo", home=tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
    assert found[0] == "Encoder" and found[1].startswith("No encoder called 'acme/typo'.")


class _HugeFiles(BaseHTTPRequestHandler):
    """A hub whose configuration is small and whose weights are huge, as far as it says."""

    def do_HEAD(self) -> None:
        size = 10 if self.path.endswith(".json") else 10**11
        self.answer(size)

    def answer(self, size: int) -> None:
        self.send_response(200)
        headers = {"ETag": '"a"', "X-Repo-Commit": "0" * 40, "Content-Length": str(size)}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(b"{}        ")

    def log_message(self, *_: object) -> None:
        pass


class _ManyFiles(_HugeFiles):
    """A hub whose weights are in twenty files. Each is small enough, all together are not."""

    index = json.dumps({"weight_map": {str(n): f"model-{n:05}.safetensors" for n in range(20)}}).encode()
    fetched: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        if self.path.endswith(("model.safetensors", "tokenizer.json", "tokenizer_config.json")):
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.end_headers()
        else:
            self.answer(len(self.index) if self.path.endswith(".json") else 10**9)

    def do_GET(self) -> None:
        self.fetched.append(Path(self.path).name)
        self.do_HEAD()
        if self.path.endswith(".json"):
            self.wfile.write(self.index)


@pytest.mark.parametrize(
    ("hub", "problem"),
    [
        (_HugeFiles, "100000000000 bytes in model.safetensors"),
        (_ManyFiles, "20000000000 bytes in model-00000.safetensors to model-00019.safetensors"),
    ],
)
def test_the_weights_on_the_hub_have_a_largest_size(hub: type[_HugeFiles], problem: str, tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        found = load_in_new_process("acme/huge", home=tmp_path, HF_ENDPOINT=url)
    finally:
        server.shutdown()
    assert f"acme/huge has {problem}; at most 15,000,000,000 are fetched" in str(found)
    assert not [name for name in _ManyFiles.fetched if name.endswith(".safetensors")], "nothing large was begun"
