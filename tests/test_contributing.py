"""The method that CONTRIBUTING.md adds as an example builds, trains, infers with and without EM, saves and loads."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from family import tiny_encoder
from small_tagger import MADE, WIDTH, small_tagger
from zgul.ensemble.em import EMConfig
from zgul.methods import METHODS
from zgul.tagger import load_tagger, save_tagger
from zgul.training.config import TrainingConfig
from zgul.training.labelled_data import labelled_data
from zgul.training.trainer import Trainer

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example among the methods."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    module = ModuleType("zgul.methods.likeness")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look there for their module
    exec(compile(code, str(GUIDE), "exec", dont_inherit=True), vars(module))
    (method,) = module.METHODS
    monkeypatch.setitem(METHODS, method.name, method)


def test_the_example_method_works(tmp_path: Path) -> None:
    tagger = small_tagger("likeness", random=False)
    assert {name.split(".")[0] for name in tagger.trained_names} == {"task", "head"}
    train = [sentence for source in MADE.sources for sentence in MADE.sentences(source, 8)]
    config = TrainingConfig(sources=tuple(MADE.sources), epochs=2, batch_size=8, accumulate=1, lr=1e-2, select="last")
    head = tagger.model.head.weight.clone()
    Trainer(tagger, labelled_data(train, [], config), config).run()
    assert not torch.equal(head, tagger.model.head.weight)

    unseen = MADE.sentences(MADE.target, 4)
    plain = tagger.predict(unseen, weights=True)
    expected = tagger.language_table([MADE.target]).values.softmax(dim=-1)
    assert expected.argmax() == 0, "the first source is the nearest"
    for prediction, sentence in zip(plain, unseen, strict=True):
        assert len(prediction.tags) == len(sentence)
        torch.testing.assert_close(torch.as_tensor(prediction.weights), expected[None].expand(len(sentence), 1, -1))
    moved = tagger.predict(unseen, strategy="em", em=EMConfig(steps=2, lr=10.0), weights=True)
    assert any((a.weights != b.weights).any() for a, b in zip(plain, moved, strict=True))

    save_tagger(tagger, tmp_path / "saved")
    again = load_tagger(tmp_path / "saved", encoder=tiny_encoder(MADE, layers=2, width=WIDTH))
    assert [p.tags for p in again.predict(unseen)] == [p.tags for p in plain]
