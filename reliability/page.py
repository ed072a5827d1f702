"""Results on disk, and docs/reliability.md, which is written from them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reliability import ROOT
from reliability.segmenter import EACH
from reliability.strange import LAST
from zgul.files import atomic_write, read_json, write_json

TARGETS = {  # what a target of the fuzzer covers
    "readers": "CoNLL-U, columns, WikiAnn, HTML, docx, odt and text, 12 encodings, 4 packings; 2% go through a tagger",
    "segmenter": "running text; 12 code points of Unicode in each case, in turn, among others that are drawn",
    "configurations": "YAML, JSON, option groups, `--set`, command lines",
    "folders": "taggers, adapted taggers, encoders and AdapterHub's adapters: JSON, safetensors, pickles, tokenizers",
    "requests": "methods, paths, headers, JSON, forms and files that are sent to the service, with small taggers",
}
WORKS = {
    "tagging": "`zgul tag --resume`",
    "training": "`zgul train --resume`",
    "adapter": "`zgul adapter train`, the same command again",
    "adapting": "`zgul adapt --resume`, with raw text and labelled sentences",
    "experiment": "`zgul experiment paper`, with one run finished before",
    "cache-1": "conversion of the embedded encoder on an empty cache",
    "cache-2": "the same by two processes at once",
    "cache-4": "the same by four processes at once",
}


def store(folder: Path | None, name: str, result: dict[str, Any]) -> None:
    """Keep a result, with the commit and the day; nothing without a folder."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        tested = result.get("commit") or commit()  # a copy on another machine may be no repository
        write_json(folder / f"{name}.json", {"commit": tested, "date": time.strftime("%Y-%m-%d"), **result})


def write(folder: Path, page: Path) -> Path:
    """Write the page from the stored results. What was not run is said to be missing."""
    frame = (Path(__file__).with_name("page.md")).read_text(encoding="utf-8")
    parts = {"FUZZ": _fuzz(folder), "CHAOS": _chaos(folder), "AGREE": _agree(folder), "DIST": _dist(folder)}
    parts |= {"CLUSTER": _cluster(folder), "GPU": _gpu(folder)}
    for name, text in parts.items():
        frame = frame.replace(f"{{{name}}}", text)
    with atomic_write(page) as file:
        file.write(frame)
    return page


def _fuzz(folder: Path) -> str:
    rows, notes = [], []
    for name, covers in TARGETS.items():
        found = read(folder / f"fuzz-{name}.json")
        if found is None:
            rows.append([f"`{name}`", covers, "not run", *[""] * 7])
            continue
        counts = [f"{found[key]:,}" for key in ("cases", "accepted", "refused", "failed")]
        costs = [f"{found['seconds']:,.0f} s", f"{found['slowest']:.2f} s", f"{found['memory'] / 1e6:,.0f} MB"]
        rows.append([f"`{name}`", covers, *counts, *costs, f"{found['seed']}", f"{found['commit']}, {found['date']}"])
        notes += [f"- `{case}` failed: {problem}" for case, problem in found["failures"].items()]
        if name == "segmenter":
            points = min(EACH * found["cases"], LAST + 1)
            notes.append(
                f"- The cases of `segmenter` had {points:,} of {LAST + 1:,} code points, up to U+{points - 1:X}."
            )
    heads = ["target", "what", "cases", "accepted", "refused", "failed", "time", "slowest case", "most memory", "seed"]
    return _table([*heads, "commit"], rows) + "".join(f"\n{note}" for note in notes) + "\n"


def _chaos(folder: Path) -> str:
    rows, notes = [], []
    for name, covers in WORKS.items():
        found = read(folder / f"chaos-{name}.json")
        if found is None:
            rows.append([f"`{name}`", covers, "not run", *[""] * 6])
            continue
        counts = [f"{found['kills']} ({found['at_files']})", f"{found['rounds']}", f"{found['files']}"]
        rest = [f"{len(found['different'])}", f"{found['undisturbed']:.1f} s", f"{found['seed']}"]
        rows.append([f"`{name}`", covers, *counts, *rest, f"{found['commit']}, {found['date']}"])
        notes += [f"- `{name}`, {file}: differs" for file in found["different"]]
    heads = [
        "work",
        "command",
        "kills (at a file)",
        "outputs",
        "files each",
        "files that differ",
        "undisturbed",
        "seed",
    ]
    return _table([*heads, "commit"], rows) + "".join(f"{note}\n" for note in notes)


def _cluster(folder: Path) -> str:
    found = read(folder / "cluster.json")
    if found is None:
        return "Not run.\n"
    killed = [f"{found[name]}" for name in ("workers", "nodes", "commands")]
    counts = [f"{found['rounds']}", *killed, f"{found['sentences']:,}"]
    counts += [f"{found['lost or doubled']}", f"{found['outputs that differ']}", f"{found['seconds']:,.0f} s"]
    heads = ["texts", "workers killed", "nodes killed", "commands killed", "sentences", "lost or doubled"]
    about = [f"{found['seed']}", f"{found['commit']}, {found['date']}"]
    return _table([*heads, "outputs that differ", "time", "seed", "commit"], [[*counts, *about]])


def _agree(folder: Path) -> str:
    found = read(folder / "agree.json")
    if found is None:
        return "Not run.\n"
    counts = zip(found["different"].items(), found["different_em"].values(), strict=True)
    rows = [[way, f"{count} of {found['words']}", f"{em} of {found['words']}"] for (way, count), em in counts]
    return (
        _table(["compared with sentences alone", "tags that differ", "with EM"], rows)
        + f"\nCommit {found['commit']}.\n"
    )


def _gpu(folder: Path) -> str:
    found = read(folder / "gpu.json")
    if found is None:
        return "Not run: there was no GPU.\n"
    rows = []
    for row in found["rows"]:
        name = f"`{row['tagger']}`" + ", with EM" * row["em"]
        rows.append([name, row["language"], f"{row['words']:,}", *map(str, row["different"].values())])
    heads = [f"differ in {precision}" for precision in found["rows"][0]["different"]]
    about = f"{found['device']}, torch {found['torch']}, {found['seconds']:.0f} s; commit {found['commit']}"
    return _table(["tagger", "language", "words", *heads], rows) + f"\n{about}, {found['date']}.\n"


def _dist(folder: Path) -> str:
    found = read(folder / "dist.json")
    if found is None:
        return "Not run.\n"
    rows = [[f"`{name}`", f"`{digest}`"] for name, digest in found["files"].items()]
    return (
        _table(["file", "SHA-256 of both builds"], rows) + f"\nOf commit {found['commit'][:10]}; {found['offline']}.\n"
    )


def read(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.is_file() else None


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    return "".join("| " + " | ".join(row) + " |\n" for row in [heads, ["---"] * len(heads), *rows])


def commit() -> str:
    """The commit that is tested, with "+" if files differ from it."""
    command = ["git", "describe", "--always", "--exclude=*", "--abbrev=10", "--dirty=+"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
