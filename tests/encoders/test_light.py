"""The embedded encoder without transformers is the embedded encoder."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from zgul.corpora.encode import PieceEncoder
from zgul.encoders import embedded, light
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError

SAMPLE = "Hetta er ein lítil roynd . Ѫзыкъ ⰳⰾⰰ অসমীয়া ‎ ﬁn 12,5 don't e\u0301 🦄"
WORDS = SAMPLE.split()


@pytest.fixture(scope="module")
def pair():
    return light.load(), embedded.load()


def test_the_same_pieces(pair) -> None:
    ours, theirs = (PieceEncoder(tokenizer, 512) for _, tokenizer in pair)
    assert [ours.pieces(word) for word in WORDS] == [theirs.pieces(word) for word in WORDS]
    for name in ("begin", "end", "pad", "unknown"):
        assert getattr(ours, name) == getattr(theirs, name)


@torch.no_grad()
def test_the_same_numbers(pair) -> None:
    ours, theirs = (Encoder(model).eval() for model, _ in pair)
    assert (ours.width, ours.depth, ours.heads, ours.max_pieces) == (384, 12, 12, 512)
    ids = torch.randint(0, 250_000, (2, 17), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 17, dtype=torch.bool)
    mask[1, 9:] = False
    torch.testing.assert_close(ours(ids, mask)[mask], theirs(ids, mask)[mask], atol=1e-6, rtol=1e-5)


def test_the_same_parameters(pair) -> None:
    ours, theirs = (dict(model.named_parameters()) for model, _ in pair)
    assert {name: value.shape for name, value in ours.items()} == {name: v.shape for name, v in theirs.items()}


def test_models_share_no_weights_that_training_could_change() -> None:
    first, second = light.load()[0], light.load()[0]
    with torch.no_grad():
        first.encoder.layer[0].output.dense.weight.zero_()
    assert second.encoder.layer[0].output.dense.weight.any()


def test_transformers_is_not_imported() -> None:
    code = "import sys; from zgul.encoders import light; light.load(); sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_damaged_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{")
    monkeypatch.setattr(embedded, "converted", lambda: tmp_path)
    with pytest.raises(ZgulError, match="is damaged"):
        light.load()
