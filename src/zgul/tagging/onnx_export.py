"""Export a tagger for one language as an ONNX file, which runs without torch and without zgul.

The whole ``Model.forward`` is traced, so any method can be exported. What depends on the language (lang2vec's scores,
the adapter that MADX picks) becomes a constant. Entropy minimisation needs gradients and is left out.
"""

from __future__ import annotations

import importlib.util
import logging
import shutil
import sys
import tempfile
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zgul.encoders.batches import Batch
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import read_json, write_json
from zgul.methods.model import Model
from zgul.tagger import Tagger

FORMAT = "zgul-onnx-1"
NEEDED = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-3  # between torch's and onnxruntime's label scores, which are of the order of 10

README = """\
# {task} tagger for {language}

`{name}` ({method}, {strategy}) as ONNX, without entropy minimisation.

| file | |
| --- | --- |
| `model.onnx` | `input_ids`, `attention_mask` (int64, [batch, length]) to `logits` (float32, [batch, length, labels]) |
| `tokenizer.json` | for the library `tokenizers` |
| `config.json` | labels in the order of the scores, ids of the special pieces, the longest input |
| `tag.py` | an example: `pip install onnxruntime tokenizers`, then `python tag.py WORD WORD …` |

A sentence is `begin`, the pieces of its words, `end`. A word's label scores stand at its first piece. Its tag is the
best of them or, if `decode` is `sequence`, that of the best sequence that IOB2 allows. Each word is cut into pieces by
itself. A word without pieces becomes `unknown`. A word with an unknown piece is cut again, with its letters replaced as
`letters` says. Batch and length are free, up to `max_pieces`.
"""


class _OneLanguage(nn.Module):
    """The model as a function of pieces and mask alone."""

    def __init__(self, model: Model, table: Tensor) -> None:
        super().__init__()
        self.model = model
        self.table = nn.Buffer(table)  # [1, ·]: what the model is told of the language

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Label scores [B, T, C]. The model needs neither labels nor corpora, so others stand for them."""
        mask, first = attention_mask.bool(), input_ids[:, 0]
        languages = torch.zeros_like(input_ids)
        logits: Tensor = self.model(Batch(input_ids, mask, mask, languages, input_ids, first, first, self.table))
        return logits


def export_onnx(
    tagger: Tagger, folder: Path | str, *, language: str, strategy: str | None = None, name: str = "given"
) -> None:
    """Write ``model.onnx``, its tokenizer, its labels and an example. What it computes is first compared with torch.

    ``strategy`` is a way to infer without EM; by default the tagger's own, or the first that there is.
    """
    folder = Path(folder)
    _check_installed()
    _check_target(folder)
    tagger = tagger.to("cpu")
    without_em = _without_em(tagger, strategy)
    wrapped = _OneLanguage(tagger.model, tagger.language_table([language], without_em).values).eval()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as made:
        _write(wrapped, tagger, Path(made), language, without_em, name)
        _compare(wrapped, tagger, Path(made) / "model.onnx")
        folder.mkdir(exist_ok=True)
        for file in Path(made).iterdir():
            file.replace(folder / file.name)
    em = tagger.em_for(language)
    if strategy is None and em is not None and em.steps:
        lost = f"This tagger was tuned with {em.steps} steps of entropy minimisation for {language}."
        warnings.warn(f"{lost} The ONNX file has none: it tags like zgul tag --no-em.", ZgulWarning, stacklevel=2)


def _check_installed() -> None:
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise ZgulError(f"ONNX export needs {', '.join(missing)}. Install them: pip install 'zgul[onnx]'")


def _check_target(folder: Path) -> None:
    """Refuse to replace anything but an earlier export."""
    if folder.exists() and not folder.is_dir():
        raise ZgulError(f"{folder} is a file. The export is a folder.")
    if folder.is_dir() and any(folder.iterdir()):
        config = folder / "config.json"
        if not config.is_file() or read_json(config).get("format") != FORMAT:
            raise ZgulError(f"{folder} holds other files. Name a new or empty folder.")


def _without_em(tagger: Tagger, strategy: str | None) -> str:
    method = tagger.method
    if strategy is not None and method.uses_em(method.check_strategy(strategy)):
        raise ZgulError(f"The strategy {strategy!r} minimises entropy, which an ONNX file cannot do. Leave it out.")
    chosen = strategy or tagger.strategy
    if not method.uses_em(chosen):
        return chosen
    return next(name for name in method.strategies if not method.uses_em(name))


def _write(wrapped: _OneLanguage, tagger: Tagger, folder: Path, language: str, strategy: str, name: str) -> None:
    _trace(wrapped, tagger).save(str(folder / "model.onnx"), external_data=False)
    pieces, tokenizer = tagger.pieces, tagger.pieces.tokenizer
    tokenizer.backend.save(str(folder / "tokenizer.json"))
    config = {
        "format": FORMAT,
        "task": tagger.task,
        "language": language,
        "labels": tagger.labels,
        "decode": tagger.decode,
        "begin": tokenizer.begin,
        "end": tokenizer.end,
        "pad": tokenizer.pad,
        "unknown": tokenizer.unknown,
        "max_pieces": tagger.parts.encoder.max_pieces,
        "letters": pieces.replacements(_every_letter()) if pieces.related_letters else {},
        "tagger": {"name": name, "method": tagger.method.name, "strategy": strategy, "sources": tagger.parts.sources},
    }
    write_json(folder / "config.json", config)
    shutil.copyfile(Path(__file__).with_name("onnx_example.py"), folder / "tag.py")
    about = {"task": tagger.task.upper(), "language": language, "method": tagger.method.title}
    (folder / "README.md").write_text(README.format(**about, strategy=strategy, name=name), encoding="utf-8")


def _every_letter() -> list[str]:
    """All letters and marks of the Unicode standard."""
    return [letter for letter in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(letter)[0] in "LM"]


def _trace(wrapped: _OneLanguage, tagger: Tagger) -> Any:
    ids = _sample(tagger, 2, 7)
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=tagger.parts.encoder.max_pieces)}
    with torch.no_grad(), _quiet():
        return torch.onnx.export(
            wrapped,
            (ids, torch.ones_like(ids)),
            dynamo=True,
            verbose=False,
            input_names=["input_ids", "attention_mask"],
            output_names=["logits"],
            dynamic_shapes={"input_ids": shape, "attention_mask": shape},
        )


def _compare(wrapped: _OneLanguage, tagger: Tagger, path: Path) -> None:
    """Refuse a file that does not compute what the model does, at sizes other than those it was traced with."""
    from onnxruntime import InferenceSession

    session = InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for batch, length in ((1, 3), (3, 40)):
        ids = _sample(tagger, batch, length)
        mask = torch.ones_like(ids)
        mask[1:, length // 2 :] = 0
        scores = session.run(["logits"], {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]
        with torch.no_grad():
            expected = wrapped(ids, mask)
        away = float((torch.from_numpy(scores) - expected)[mask.bool()].abs().max())
        if not away < TOLERANCE:
            raise ZgulError(
                f"The ONNX file gives other label scores than torch (by {away:.2g}), so it was not kept. "
                "Update onnx, onnxscript and onnxruntime. If that does not help, report it."
            )


def _sample(tagger: Tagger, batch: int, length: int) -> Tensor:
    return torch.randint(
        tagger.parts.encoder.config.vocabulary, (batch, length), generator=torch.Generator().manual_seed(0)
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which reports on packages that play no part here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", ZgulWarning)
            yield
    finally:
        logger.setLevel(level)
