"""Compare int8 with float32 on the paper's 15 test files: F1 of the shipped taggers as ``zgul tag`` runs them.

    python scripts/int8_scores.py [--data ../shared/data] [--taggers germanic-pos] [--again]

The dev files of the sources, without EM, are compared first, and decide: `auto` is int8 for a tagger that loses at most
LIMIT on each of them, with the largest of SHARES where that is so (`zgul.fast.engine`). This is noted in its
config.json. Each comparison has a file in docs/results/int8. It is made again when the weights of its tagger, its EM
settings or the form of int8 changed, or with ``--again``. The tables go into docs/tagging.md. The command fails if a
target loses more than LIMIT where `auto` chooses int8: then the rule is wrong.

EM computes in float32 on both sides, so the sentences that both sides give to EM are computed once.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zgul.corpora.data_folder import DataFolder, source_split
from zgul.corpora.sentence import TASKS
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
from zgul.tagging.serving import adapted_note, serving, shipped_config
from zgul.tagging.text_tagger import TextTagger

ROOT = Path(__file__).resolve().parents[1]
DATA, RESULTS, PAGE = ROOT.parent / "shared" / "data", ROOT / "docs" / "results" / "int8", ROOT / "docs" / "tagging.md"
LIMIT = 0.15  # F1 that int8 may lose
SHARES = (0.1, 0.0)  # of the words of a sentence that int8 may leave open; else it is read again in float32
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


def sharing(tagger: Tagger, precision: str, share: float, known: dict[bytes, Tensor]) -> Tagger:
    changed = replace(tagger, precision=precision, about=dict(tagger.about) | {"int8_open": share})
    vars(changed)["engine"] = SharedEM(changed.engine, known)
    return changed


def compare(case: Case, data: Path) -> dict[str, Any]:
    """F1 in both precisions on a file: a dev file with all shares, a test file with its tagger's."""
    sentences = DataFolder(data).sentences(case.task, case.language, case.file_split)[: case.most]
    loaded = case.load()
    tagger, inference = loaded.taggers[case.task], loaded.inference[case.task]
    gold, known = [sentence.tags or [] for sentence in sentences], dict[bytes, Tensor]()

    def tags(precision: str, share: float) -> list[list[str]]:
        found = sharing(tagger, precision, share, known).predict(sentences, **vars(inference))
        return [prediction.tags for prediction in found]

    exact = tags("float32", 0.0)
    rough = {share: tags("int8", share) for share in (SHARES if case.split == "dev" else [case.share])}
    words = [tag for sentence in exact for tag in sentence]
    return {"em": str(inference), "words": len(words), "float32": scores(gold, exact).f1} | {
        "int8": {
            str(share): {
                "f1": scores(gold, found).f1,
                "same_tags": 100 * sum(map(str.__eq__, words, itertools.chain(*found))) / len(words),
            }
            for share, found in rough.items()
        }
    }


@dataclass(frozen=True)
class Case:
    """A shipped tagger and a file: a target's test file, as `zgul tag` runs, or a source's dev file, without EM."""

    tagger: str
    task: str
    language: str
    split: str

    @property
    def file_split(self) -> str:
        group = shipped_config(self.base)["about"]["training"].get("group", "")
        return source_split(group, self.language, self.split) if self.split == "dev" else self.split

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
        loaded = self.load()
        settings: tuple[object, ...] = (
            int8.SETTINGS,
            SHARES if self.split == "dev" else self.share,
            self.most,
            str(loaded.inference[self.task]),
        )
        if loaded.taggers[self.task].strip_marks:
            settings += ("without marks",)
        digest = hashlib.sha256(repr(settings).encode())
        for name in (f"{self.base}/model", "adapters", *([f"{self.tagger}/delta"] if self.base != self.tagger else ())):
            digest.update((shipped_folder() / f"{name}.safetensors").read_bytes())
        return digest.hexdigest()[:16]

    def stored(self) -> dict[str, Any]:
        return read_json(self.file) if self.file.is_file() else {}

    @property
    def auto(self) -> str:
        """The precision that `auto` chooses on a CPU that is fast in 8 bits."""
        keeps = adapted_note(self.tagger).get("about", {}).get("int8", True)
        return "int8" if keeps and shipped_config(self.base)["about"].get("int8") else "float32"

    @property
    def base(self) -> str:
        """The tagger itself, or the one that it was adapted from."""
        return str(adapted_note(self.tagger).get("base", self.tagger))

    @property
    def share(self) -> float:
        return float(shipped_config(self.base)["about"].get("int8_open", 0.0))


def decide(cases: list[Case]) -> None:
    """Note in a tagger's config.json if it loses at most LIMIT on the dev file of each of its sources, and how."""
    for name in sorted({case.tagger for case in cases if case.split == "dev"}):
        dev = [case.stored() for case in cases if (case.tagger, case.split) == (name, "dev")]
        fit = [share for share in SHARES if all(one and loss(one, share) <= LIMIT for one in dev)]
        config = shipped_config(name)
        config["about"] |= {"int8": bool(fit), "int8_open": max(fit, default=0.0)}
        write_json(shipped_folder() / name / "config.json", config)
    for case in cases:  # an adapted tagger has no sources of its own: its test file decides, as when it was shipped
        if case.base != case.tagger and case.stored():
            note = adapted_note(case.tagger)
            note["about"]["int8"] = loss(case.stored(), case.share) <= LIMIT
            write_json(shipped_folder() / case.tagger / "delta.json", note)


def all_cases() -> list[Case]:
    """The taggers of the groups, and those over all sources. An adapted one allows as many open words as its base."""
    cases = []
    for group in GROUPS.values():
        name = serving(group.targets[0], group.task, adapted=False).name
        for language in group.targets:
            own = serving(language, group.task).name
            cases += [Case(tagger, group.task, language, "test") for tagger in dict.fromkeys([name, own])]
        cases += [Case(name, group.task, language, "dev") for language in group.sources]
    for task in TASKS:
        sources = dict.fromkeys(code for group in GROUPS.values() if group.task == task for code in group.sources)
        cases += [Case(f"all-{task}", task, language, "dev") for language in sources]
    return cases


def table(cases: list[Case]) -> str:
    heads = ["language", "tagger", "open words", "F1, float32", "F1, int8", "change", "same tags", "`auto`"]
    lines = ["| " + " | ".join(heads) + " |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    for case in cases:
        if result := case.stored():
            exact, rough = result["float32"], result["int8"][str(case.share)]
            figures = f"{exact:.2f} | {rough['f1']:.2f} | {rough['f1'] - exact:+.2f} | {rough['same_tags']:.1f}%"
            lines.append(f"| {find(case.language)} | {case.tagger} | {case.share:g} | {figures} | {case.auto} |")
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
    for split in ("dev", "test"):
        for case in [case for case in cases if case.split == split and case.tagger in given.taggers]:
            if given.again or case.stored().get("state") != case.state():
                write_json(case.file, {"state": case.state()} | compare(case, given.data))
                print(table([case]).splitlines()[-1], flush=True)
        decide(cases)
    render(cases)
    tested = [case for case in cases if case.split == "test" and case.auto == "int8" and case.stored()]
    if lost := [case.language for case in tested if loss(case.stored(), case.share) > LIMIT]:
        problem = f"int8 loses more than {LIMIT} F1 on {', '.join(lost)}, and auto chooses it there"
        raise ZgulError(f"{problem}. Change the rule, by the dev files of the sources.")


def loss(result: dict[str, Any], share: float) -> float:
    return float(result["float32"] - result["int8"][str(share)]["f1"])


if __name__ == "__main__":
    try:
        main()
    except ZgulError as error:
        sys.exit(f"Error: {error}")
