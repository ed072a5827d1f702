"""Export a tagger for one language as an ONNX file, which runs without torch and without zgul.

In int8 the file has the graph of `zgul.fast.int8`, with the vocabulary in 4 bits as in the embedded encoder. Pieces of
scripts that the language does not have are left out (`pieces_to_keep`). In float32 the whole ``Model.forward`` is
traced, so any method can be exported. What depends on the language (lang2vec's scores, the adapter that MADX picks)
becomes a constant. Entropy minimisation needs gradients and is left out. ``onnx_example.py`` and ``onnx_readme.md`` are
written beside the file.
"""

import importlib.util
import json
import logging
import shutil
import sys
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zgul.encoders import PieceTokenizer, prune
from zgul.encoders.batches import MARKED, STRESS_MARKS, Batch
from zgul.errors import ZgulError, ZgulWarning
from zgul.fast.engine import engine
from zgul.fast.int8 import fits, to_whole_graph
from zgul.files import read_json, write_json
from zgul.methods.model import Model
from zgul.tagger import Tagger
from zgul.tagging.langid import scripts_in, scripts_of

FORMAT = "zgul-onnx-1"
PRECISIONS = ("auto", "float32", "int8")
NEEDED = {"float32": ("onnx", "onnxscript", "onnxruntime"), "int8": ("onnx", "onnxruntime")}
TOLERANCE = 1e-3  # between torch's and onnxruntime's label scores, which are of the order of 10
INT8_TOLERANCE = 0.1  # the same on the mean in int8, where a number between two codes may fall on either side
MOST_PIECES = 130_000  # in int8: a row of the vocabulary has 216 bytes, so the file stays below 60 MB
INPUTS, OUTPUTS = ["input_ids", "attention_mask"], ["logits"]


class _OneLanguage(nn.Module):
    """The model as a function of pieces and mask alone."""

    def __init__(self, model: Model, table: Tensor) -> None:
        super().__init__()
        self.model = model
        self.table = nn.Buffer(table)  # [1, ·]: the language table

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Label scores [B, T, C]. The model needs neither labels nor corpora, so other tensors take their place."""
        mask, first = attention_mask.bool(), input_ids[:, 0]
        languages = torch.zeros_like(input_ids)
        logits: Tensor = self.model(Batch(input_ids, mask, mask, languages, input_ids, first, first, self.table))
        return logits


def export_onnx(
    tagger: Tagger,
    folder: Path | str,
    *,
    language: str,
    strategy: str | None = None,
    name: str = "given",
    precision: str = "auto",
) -> None:
    """Write ``model.onnx``, its tokenizer, its labels and an example. Its outputs are first compared with torch's.

    ``strategy`` must be one without EM. The default is the tagger's own, or the method's first one without EM.
    ``precision`` is float32, int8, or auto: int8 for parts of speech on the embedded encoder, else float32.
    """
    folder, tagger = Path(folder), tagger.to("cpu")
    precision = _find_precision(tagger, precision)
    _check(folder, NEEDED[precision])
    without_em = _without_em(tagger, strategy)
    wrapped = _OneLanguage(tagger.model, tagger.language_table([language], without_em).values).eval()
    made = folder.parent / f".{folder.name}.part"
    shutil.rmtree(made, ignore_errors=True)  # left by a process that was killed
    made.mkdir(parents=True)
    try:
        tokenizer, path = tagger.pieces.tokenizer, str(made / "model.onnx")
        if precision == "int8":
            tokenizer = _write_int8(tagger, wrapped.table, language, path)
        else:
            _trace(wrapped, tagger).save(path, external_data=False)
            _compare(wrapped, tagger, path)
        _describe(tagger, made, language, without_em, name, tokenizer)
        folder.mkdir(exist_ok=True)
        for file in made.iterdir():
            file.replace(folder / file.name)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    em = tagger.em_for(language)
    if strategy is None and em is not None and em.steps:
        lost = f"This tagger was tuned with {em.steps} steps of entropy minimisation for {language}."
        warnings.warn(f"{lost} The ONNX file has none: it tags like zgul tag --no-em.", ZgulWarning, stacklevel=2)


def _find_precision(tagger: Tagger, precision: str) -> str:
    if precision not in PRECISIONS:
        raise ZgulError(f"The precision of an ONNX file is one of {', '.join(PRECISIONS)}, not {precision!r}.")
    if precision != "auto":
        return precision
    measured = tagger.task == "pos" and tagger.encoder_name == "embedded"  # what int8 costs others is not known
    return "int8" if measured and fits(engine(tagger.model).model) else "float32"


def _check(folder: Path, needed: Sequence[str]) -> None:
    """Refuse if packages are missing, or if the folder holds anything but an earlier export."""
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise ZgulError(f"ONNX export needs {', '.join(missing)}. Install them: pip install 'zgul[onnx]'")
    if folder.exists() and not folder.is_dir():
        raise ZgulError(f"{folder} is a file. Give a folder.")
    config = folder / "config.json"
    earlier = config.is_file() and read_json(config).get("format") == FORMAT
    if folder.is_dir() and any(folder.iterdir()) and not earlier:
        raise ZgulError(f"{folder} holds other files. Name a new or empty folder.")


def _without_em(tagger: Tagger, strategy: str | None) -> str:
    method = tagger.method
    if strategy is not None and method.uses_em(method.check_strategy(strategy)):
        raise ZgulError(f"The strategy {strategy!r} minimises entropy, which an ONNX file cannot do. Leave it out.")
    possible = (strategy or tagger.strategy, *method.strategies)
    return next(name for name in possible if not method.uses_em(name))


def _trace(wrapped: _OneLanguage, tagger: Tagger) -> Any:
    ids = _sample(tagger, 2, 7)
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=tagger.parts.encoder.max_pieces)}
    names: dict[str, Any] = {"input_names": INPUTS, "output_names": OUTPUTS}
    shapes = dict.fromkeys(INPUTS, shape)
    with torch.no_grad(), _quiet():
        given = (ids, torch.ones_like(ids))
        return torch.onnx.export(wrapped, given, dynamo=True, verbose=False, dynamic_shapes=shapes, **names)


def _write_int8(tagger: Tagger, table: Tensor, language: str, path: str) -> PieceTokenizer:
    """Write the int8 graph, compare it with the engine's, and return the tokenizer of its vocabulary."""
    from onnxruntime import InferenceSession

    fast = engine(tagger.model, precision="int8")
    encoder, whole = tagger.parts.encoder, tagger.pieces.tokenizer
    tokenizer, words = whole, encoder.words.weight.detach()
    if kept := pieces_to_keep(whole, language, tagger.parts.sources):
        smaller, tokenizer = prune(encoder, whole, kept)
        words = smaller.words.weight.detach()
    old = [whole.backend.token_to_id(tokenizer.backend.id_to_token(row)) for row in range(len(words))]
    ids = torch.randint(len(words), (4, 24), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = tokenizer.begin, tokenizer.end
    mask = torch.ones_like(ids, dtype=torch.bool)
    batch = Batch(torch.tensor(old)[ids], mask, mask, torch.zeros_like(ids), ids, ids[:, 0], ids[:, 0], table)
    with torch.no_grad():
        data = to_whole_graph(fast.model, (whole.begin, whole.end), words, fast.model.languages(batch)[0])
    Path(path).write_bytes(data)
    found = InferenceSession(data, providers=["CPUExecutionProvider"]).run(OUTPUTS, {INPUTS[0]: ids.numpy()})[0]
    _refuse_above(float((torch.from_numpy(found) - fast(batch).logits).abs().mean()), INT8_TOLERANCE)
    return tokenizer


def pieces_to_keep(tokenizer: PieceTokenizer, language: str, sources: Sequence[str]) -> list[str]:
    """The pieces of a language's scripts, then the most frequent others, up to MOST_PIECES. None if all fit.

    The segmentation of a word has only pieces of the scripts that the word has. So words in the language's own scripts
    are read as before. Scripts are those of `langid`, or of the sources if it does not know the language.
    """
    contents = json.loads(tokenizer.backend.to_str())["model"]
    if contents["type"] != "Unigram" or len(contents["vocab"]) <= MOST_PIECES:
        return []
    known = [code for code in [language] if scripts_of(code)] or sources
    own = {script for code in known for script in scripts_of(code)}

    def rank(entry: tuple[str, float]) -> tuple[bool, bool, float]:
        piece, score = entry
        character = len(piece.removeprefix("▁")) <= 1  # `prune` keeps them in any case
        return not character, not scripts_in(piece) <= own, -score

    return [piece for piece, _ in sorted(contents["vocab"], key=rank)[:MOST_PIECES]]


def _compare(wrapped: _OneLanguage, tagger: Tagger, path: str) -> None:
    """Refuse a file that computes something else than the model. It is tested at sizes that it was not traced with."""
    from onnxruntime import InferenceSession

    session = InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch, length in ((1, 3), (3, 40)):
        ids = _sample(tagger, batch, length)
        mask = torch.ones_like(ids)
        mask[1:, length // 2 :] = 0
        scores = session.run(OUTPUTS, dict(zip(INPUTS, (ids.numpy(), mask.numpy()), strict=True)))[0]
        with torch.no_grad():
            expected = wrapped(ids, mask)
        _refuse_above(float((torch.from_numpy(scores) - expected)[mask.bool()].abs().max()), TOLERANCE)


def _refuse_above(away: float, tolerance: float) -> None:
    if not away < tolerance:
        problem = f"The ONNX file gives other label scores than zgul (by {away:.2g}), so it was not kept."
        advice = "Update onnx, onnxscript and onnxruntime. If that does not help, report it."
        raise ZgulError(f"{problem} {advice}")


def _sample(tagger: Tagger, batch: int, length: int) -> Tensor:
    pieces = tagger.parts.encoder.config.vocabulary
    return torch.randint(pieces, (batch, length), generator=torch.Generator().manual_seed(0))


def _describe(tagger: Tagger, folder: Path, language: str, strategy: str, name: str, tokenizer: PieceTokenizer) -> None:
    """Write the files beside the model: tokenizer, labels, an example and a README."""
    pieces, method = tagger.pieces, tagger.method
    tokenizer.backend.save(str(folder / "tokenizer.json"))
    special = {piece: getattr(tokenizer, piece) for piece in ("begin", "end", "pad", "unknown")}
    about = {"task": tagger.task, "language": language, "labels": tagger.labels, "decode": tagger.decode}
    origin = {"name": name, "method": method.name, "strategy": strategy, "sources": tagger.parts.sources}
    letters = [letter for letter in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(letter)[0] in "LM"]
    related = pieces.replacements(letters) if pieces.related_letters else {}
    reading = {"max_pieces": tagger.parts.encoder.max_pieces, "letters": related, "blank": tokenizer.blank}
    reading |= {"marks": STRESS_MARKS if tagger.strip_marks else "", "marked": MARKED}
    write_json(folder / "config.json", {"format": FORMAT, **about, **special, **reading, "tagger": origin})
    shutil.copyfile(Path(__file__).with_name("onnx_example.py"), folder / "tag.py")
    names = {"task": tagger.task.upper(), "method": method.title, "language": language, "strategy": strategy}
    readme = Path(__file__).with_name("onnx_readme.md").read_text("utf-8")
    (folder / "README.md").write_text(readme.format(**names, name=name), encoding="utf-8")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which reports on packages that do not matter here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            warnings.simplefilter("always", ZgulWarning)
            yield
    finally:
        logger.setLevel(level)
