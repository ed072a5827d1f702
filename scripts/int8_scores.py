"""Compare int8 with float32 on the paper's 15 test files: F1 of the shipped taggers as ``zgul tag`` runs them.

    python scripts/int8_scores.py [--data ../shared/data] [--taggers germanic-pos] [--again]

The dev files of the sources, without EM, are compared as well, and decide: `auto` is int8 for a tagger that loses at
most LIMIT on each of them. This is noted in its config.json. Each comparison
has a file in docs/results/int8. It is made again when the weights of its tagger, its EM settings or the form of int8
changed, or with ``--again``. The tables go into docs/tagging.md. The command fails if a target loses more than
LIMIT where `auto` chooses int8: then the rule is wrong.

EM computes in float32 on both sides, so the sentences that both sides give to EM are computed once.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zgul.corpora.data_folder import DataFolder
from zgul.encoders.batches import Batch
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import scores
from zgul.fast import int8
from zgul.fast.engine import Engine
from zgul.files import atomic_write, read_json, shipped_folder, write_json
from zgul.languages import GROUPS, find
from zgul.methods.model import Inferred
from zgul.tagger import Tagger
from zgul.tagging.loading import load
from zgul.tagging.serving import serving, shipped_config
from zgul.tagging.text_tagger import TextTagger

ROOT = Path(__file__).resolve().parents[1]
DATA, RESULTS, PAGE = ROOT.parent / "shared" / "data", ROOT / "docs" / "results" / "int8", ROOT / "docs" / "tagging.md"
LIMIT = 0.15  # F1 that int8 may lose
DEV_SENTENCES = 800  # of each source


class SharedEM:
    """An engine that remembers what EM gave for a sentence. EM's sentences do not see each other."""

    def __init__(self, engine: Engine, known: dict[bytes, Tensor]) -> None:
        self.engine, self.known = engine, known
        self.max_tokens, self.shapes = engine.max_tokens, engine.shapes

    def __call__(self, batch: Batch, em: EMConfig | None = None, weights: bool = False) -> Inferred:
        if em is None or not em.steps:
            return self.engine(batch, em, weights)
        lengths = batch.mask.sum(dim=1).tolist()
        keys = [row[:length].numpy().tobytes() for row, length in zip(batch.input_ids, lengths, strict=True)]
        if missing := [row for row, key in enumerate(keys) if key not in self.known]:
            for row, scored in zip(missing, self.engine(batch.select(torch.tensor(missing)), em).logits, strict=True):
                self.known[keys[row]] = scored[: lengths[row]].clone()
        first = self.known[keys[0]]
        logits = first.new_zeros(*batch.input_ids.shape, first.shape[-1])
        for row, key in enumerate(keys):
            logits[row, : lengths[row]] = self.known[key]
        return Inferred(logits)


def sharing(tagger: Tagger, precision: str, known: dict[bytes, Tensor]) -> Tagger:
    changed = replace(tagger, precision=precision)
    vars(changed)["engine"] = SharedEM(changed.engine, known)
    return changed


def compare(case: Case, data: Path) -> dict[str, Any]:
    """F1 in both precisions on a file."""
    sentences = DataFolder(data).sentences(case.task, case.language, case.split)[: case.most]
    loaded = case.load()
    tagger, inference = loaded.taggers[case.task], loaded.inference[case.task]
    gold, known, tags = [sentence.tags or [] for sentence in sentences], dict[bytes, Tensor](), {}
    for precision in ("float32", "int8"):
        found = sharing(tagger, precision, known).predict(sentences, **vars(inference))
        tags[precision] = [prediction.tags for prediction in found]
    flat = [[tag for sentence in found for tag in sentence] for found in tags.values()]
    f1 = {precision: scores(gold, found).f1 for precision, found in tags.items()}
    return {
        "em": str(inference),
        "words": len(flat[0]),
        "f1": f1,
        "same_tags": 100 * sum(map(str.__eq__, *flat)) / len(flat[0]),
    }


@dataclass(frozen=True)
class Case:
    """A shipped tagger and a file: a target's test file, as `zgul tag` runs, or a source's dev file, without EM."""

    tagger: str
    task: str
    language: str
    split: str

    @property
    def most(self) -> int | None:
        return None if self.split == "test" else DEV_SENTENCES

    @property
    def file(self) -> Path:
        return RESULTS / f"{self.tagger}.{self.language}.json"

    def load(self) -> TextTagger:
        em = None if self.split == "test" else False
        return load(self.language, self.task, model=self.tagger, em=em, precision="float32")

    def state(self) -> str:
        """A checksum of what the comparison depends on."""
        settings = (int8.VERSION, int8.MARGINS, int8.FLOOR, self.most, str(self.load().inference[self.task]))
        digest = hashlib.sha256(repr(settings).encode())
        for file in (shipped_folder() / self.tagger / "model.safetensors", shipped_folder() / "adapters.safetensors"):
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]

    def stored(self) -> dict[str, Any]:
        return read_json(self.file) if self.file.is_file() else {}

    @property
    def auto(self) -> str:
        """The precision that `auto` chooses on a CPU that is fast in 8 bits."""
        return "int8" if shipped_config(self.tagger)["about"].get("int8") else "float32"


def decide(cases: list[Case]) -> None:
    """Note in each tagger's config.json whether it loses at most LIMIT on the dev file of each of its sources."""
    for name in sorted({case.tagger for case in cases}):
        dev = [case.stored() for case in cases if (case.tagger, case.split) == (name, "dev")]
        config = shipped_config(name)
        config["about"]["int8"] = all(one and loss(one) <= LIMIT for one in dev)
        write_json(shipped_folder() / name / "config.json", config)


def all_cases() -> list[Case]:
    cases = []
    for group in GROUPS.values():
        name = serving(group.targets[0], group.task).name
        cases += [Case(name, group.task, language, "test") for language in group.targets]
        cases += [Case(name, group.task, language, "dev") for language in group.sources]
    return cases


def table(cases: list[Case]) -> str:
    heads = ["language", "tagger", "F1, float32", "F1, int8", "change", "same tags", "`auto`"]
    lines = ["| " + " | ".join(heads) + " |", "| --- | --- | ---: | ---: | ---: | ---: | --- |"]
    for case in cases:
        if result := case.stored():
            exact, rough = result["f1"]["float32"], result["f1"]["int8"]
            figures = f"{exact:.2f} | {rough:.2f} | {rough - exact:+.2f} | {result['same_tags']:.1f}%"
            lines.append(f"| {find(case.language)} | {case.tagger} | {figures} | {case.auto} |")
    return "\n".join(lines) + "\n"


def render(cases: list[Case]) -> None:
    """Write both tables into the page."""
    text = PAGE.read_text(encoding="utf-8")
    for split in ("test", "dev"):
        before, begin, rest = text.partition(f"<!-- int8: {split} -->\n")
        if not begin:
            raise ZgulError(f"{PAGE} has no place for the table: <!-- int8: {split} -->")
        text = before + begin + table([case for case in cases if case.split == split]) + "<!-- end -->"
        text += rest.partition("<!-- end -->")[2]
    with atomic_write(PAGE) as file:
        file.write(text)


def main(arguments: list[str] | None = None) -> None:
    cases = all_cases()
    names = sorted({case.tagger for case in cases})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--taggers", nargs="+", default=names, choices=names, metavar="TAGGER")
    parser.add_argument("--again", action="store_true", help="score again what has not changed")
    given = parser.parse_args(arguments)
    if not int8.fast_in_int8():
        raise ZgulError("This CPU is not fast in int8, or onnx and onnxruntime are missing. Use another machine.")
    warnings.simplefilter("ignore", ZgulWarning)
    for case in cases:
        if case.tagger in given.taggers and (given.again or case.stored().get("state") != case.state()):
            write_json(case.file, {"state": case.state()} | compare(case, given.data))
            print(table([case]).splitlines()[-1], flush=True)
    decide(cases)
    render(cases)
    tested = [case for case in cases if case.split == "test" and case.auto == "int8" and case.stored()]
    if lost := [case.language for case in tested if loss(case.stored()) > LIMIT]:
        problem = f"int8 loses more than {LIMIT} F1 on {', '.join(lost)}, and auto chooses it there"
        raise ZgulError(f"{problem}. Change the rule, by the dev files of the sources.")


def loss(result: dict[str, Any]) -> float:
    return float(result["f1"]["float32"] - result["f1"]["int8"])


if __name__ == "__main__":
    try:
        main()
    except ZgulError as error:
        sys.exit(f"Error: {error}")
