"""Join the paper's sources and further ones in one data folder, for taggers that learn from many languages.

    python scripts/wide_data.py ../shared/data OUTPUT

DATA/more is a data folder of its own. A language that is in both gets the sentences of both. Nothing but ``train``
and ``dev`` of sources is taken, so no file of a target can be trained on by mistake.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from zgul.files import atomic_write
from zgul.languages import TARGETS

SPLITS = ("train.tsv.xz", "dev.tsv.xz", "panx.train.tsv.xz", "panx.dev.tsv.xz")


def join(data: Path, output: Path) -> None:
    """Write OUTPUT/TASK/LANG/SPLIT.tsv.xz. Files in xz may simply follow each other."""
    places = (data, data / "more")
    for task in ("pos", "ner"):
        for language in sorted({folder.name for place in places for folder in (place / task).glob("*")} - {*TARGETS}):
            for split in SPLITS:
                files = [file for place in places if (file := place / task / language / split).is_file()]
                if files:
                    with atomic_write(output / task / language / split, "wb") as joined:
                        joined.write(b"".join(file.read_bytes() for file in files))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    join(given.data, given.output)
