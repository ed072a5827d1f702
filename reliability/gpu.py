"""CPU against GPU: shipped taggers tag the same sentences on both, and tags that differ are counted.

Rounding differs there, so a word on the border between two tags may fall on either side. A GPU machine may have neither
labelled data nor the embedded encoder, so one folder brings both:

python -m reliability.gpu pack carry/gpu                   # sentences, and the encoder with their pieces alone; --data
python -m reliability.gpu compare carry/gpu --output DIR   # on the GPU machine, in half a minute; writes DIR/gpu.json
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from reliability import ROOT, agreement, page
from zgul import encoders
from zgul.corpora.data_folder import DataFolder
from zgul.encoders import Encoder, PieceTokenizer
from zgul.files import shipped_folder, write_json
from zgul.languages import find
from zgul.tagger import Tagger, load_tagger
from zgul.tagging.delta import apply_delta, is_delta, load_delta
from zgul.tagging.loading import choose_inference
from zgul.tagging.serving import serving
from zgul.tagging.text_tagger import TextTagger

LANGUAGES = (("pos", "fo"), ("pos", "got"), ("ner", "luo"), ("ner", "as"), ("ner", "bho"))  # the last two use EM
WORDS = 2000  # of each language, or all words of its test file
PRECISIONS = ("float32", "bfloat16")  # of the GPU; the CPU computes in float32
ENCODER, TEXTS = "encoder.q4.safetensors", "texts.json"


def pack(folder: Path, data: Path, words: int = WORDS) -> None:
    """Write the beginning of each test file, and the encoder with only the pieces that occur there."""
    texts: dict[str, list[list[str]]] = {}
    for task, code in LANGUAGES:
        given = texts[f"{task}/{code}"] = []
        for sentence in DataFolder(data).sentences(task, code, "test"):
            if sum(map(len, given)) < words:
                given.append(sentence.words)
    whole, tokenizer = encoders.load("embedded")
    pieces = encoders.pieces_used(tokenizer, [word for given in texts.values() for words in given for word in words])
    folder.mkdir(parents=True, exist_ok=True)
    encoders.save_q4(*encoders.prune(whole, tokenizer, pieces), folder / ENCODER)
    write_json(folder / TEXTS, {"commit": page.commit(), "texts": texts})


def compare(folder: Path, device: str = "cuda") -> dict[str, Any]:
    """Tag everything on the CPU and, in each precision, on the device. Differences are counted, not forbidden."""
    started, packed = time.monotonic(), json.loads((folder / TEXTS).read_text(encoding="utf-8"))
    encoder, rows = encoders.load(str(folder / ENCODER)), []
    for place, given in packed["texts"].items():
        task, code = place.split("/")
        tagger = _load(task, code, encoder)
        alone, there = agreement.tags(tagger, given), tagger.taggers[task].to(device)
        row = {"tagger": tagger.served[task].name, "language": code, "em": tagger.inference[task].runs_em}
        row |= {"words": sum(map(len, given)), "different": {}}
        for precision in PRECISIONS:
            on_device = replace(tagger, taggers={task: replace(there, precision=precision)})
            row["different"][precision] = agreement.different(alone, agreement.tags(on_device, given))
        rows.append(row)
    name = torch.cuda.get_device_name() if device == "cuda" else device
    about = {"device": name, "torch": torch.__version__, "seconds": round(time.monotonic() - started, 1)}
    return {"commit": packed["commit"], **about, "rows": rows}


def _load(task: str, code: str, encoder: tuple[Encoder, PieceTokenizer]) -> TextTagger:
    """The shipped tagger of a language, with the packed encoder."""
    served, language = serving(code, task), find(code)
    folder = shipped_folder() / served.name
    if is_delta(folder):
        delta = load_delta(folder)
        tagger: Tagger = apply_delta(load_tagger(shipped_folder() / delta.base, encoder=encoder), delta)
    else:
        tagger = load_tagger(folder, encoder=encoder)
    return TextTagger(language, {task: tagger}, {task: served}, {task: choose_inference(tagger, code)})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m reliability.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("does", choices=["pack", "compare"])
    parser.add_argument("folder", type=Path, help="folder with encoder and sentences")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with pos/ and ner/")
    parser.add_argument("--output", type=Path, help="folder for the results, such as docs/results/reliability")
    given = parser.parse_args(arguments)
    if given.does == "pack":
        pack(given.folder, given.data)
        return
    result = compare(given.folder)
    print(json.dumps(result, indent=2))
    page.store(given.output, "gpu", result)


if __name__ == "__main__":
    main()
