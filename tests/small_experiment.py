"""The Germanic group played by a made-up family, with text of two targets, and a protocol of seconds."""

from pathlib import Path

from tiny_group import MADE, write_group
from zgul.paper.plan import Inputs, Protocol

SMALL = Protocol(
    seeds=(0,),
    groups=("germanic",),
    limit=40,
    dev_limit=8,
    test_limit=8,
    epochs=2,
    lr=1e-2,  # so that numbers differ from run to run
    batch_size=8,
    accumulate=1,
    em_sentences=4,
    em_steps=(1, 2),
    em_rates=(10.0,),
    examples=(0, 4, 8, 500),
    few_epochs=2,
    shares=(0.5, 1.0),
    text_languages=("fo",),
    text_lines=1000,
    text_steps=2,
    text_blocks=2,
)


def write_experiment(folder: Path) -> Inputs:
    """Data, text and encoder in a folder."""
    write_group(folder)
    text = folder / "data" / "text"
    text.mkdir()
    for code in ("fo", "got"):
        (text / f"{code}.open.txt").write_text("\n".join(MADE.text("target", 1200, 3)), encoding="utf-8")
    return inputs_in(folder)


def inputs_in(folder: Path) -> Inputs:
    return Inputs(str(folder / "data"), str(folder / "encoder"), "new", device="cpu")
