"""A shipped tagger is coded in fewer bits only if the dev files of its sources allow it."""

import sys
from pathlib import Path

import pytest
import torch

from zgul.tensors import Coded, load_coded, load_tensors, load_with_metadata, save_tensors

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import recode


@pytest.mark.parametrize(
    ("changes", "replaced"),
    [((0.2, -0.3), True), ((-0.05, -0.15), True), ((0.5, -0.31), False), ((-0.2, -0.1), False)],
)
def test_the_weights_are_replaced_only_if_f1_stays(
    changes: tuple[float, float], replaced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recode, "SHIPPED", tmp_path)
    model = tmp_path / "germanic-pos" / "model.safetensors"
    model.parent.mkdir()
    (model.parent / "config.json").write_text("{}")
    save_tensors(
        model, {"matrix": torch.randn(80, 80), "vector": torch.randn(8)}, bits=8, metadata={"made": "by a test"}
    )
    before, old = model.read_bytes(), load_tensors(model)

    def compare(name: str, coded: Path, data: Path) -> dict[str, dict[str, float]]:
        assert (coded / "config.json").is_file()
        return {str(n): {"before": 50.0, "after": 50.0 + change} for n, change in enumerate(changes)}

    monkeypatch.setattr(recode, "compare", compare)
    facts = recode.recode("germanic-pos", 5, tmp_path)
    assert (facts["from"], facts["bits"], facts["recoded"]) == (8, 5, replaced)
    assert (model.read_bytes() == before) != replaced
    found, new = load_coded(model)[0].values(), load_tensors(model)
    assert {one.bits for one in found if isinstance(one, Coded)} == {5 if replaced else 8}
    assert load_with_metadata(model)[1] == {"made": "by a test"}
    for name, value in old.items():
        torch.testing.assert_close(new[name], value, rtol=0, atol=0.1)
