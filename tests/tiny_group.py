"""The Germanic group played by a made-up family: a data folder and an encoder folder, for tests of whole runs."""

from pathlib import Path

from family import Family, family, tiny_encoder
from zgul import encoders
from zgul.corpora import columns
from zgul.corpora.sentence import Sentence

ACTORS = {"is": "s0", "de": "s1", "en": "s2", "fo": "target", "got": "target", "gsw": "target"}
MADE: Family = family(0, n_languages=4)


def write_group(folder: Path, width: int = 16) -> Path:
    """``folder/data`` and ``folder/encoder``; as in the real data, gsw has no dev set and no target a training set."""
    for code, actor in ACTORS.items():
        splits = ("train", "dev") if actor != "target" else ("test",) if code == "gsw" else ("dev", "test")
        for split in splits:
            path = folder / "data" / "pos" / code / f"{split}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            columns.write(
                path, MADE.sentences(actor, 60 if split == "train" else 20, ("train", "dev", "test").index(split))
            )
    encoders.save(*tiny_encoder(MADE, width=width), folder / "encoder")
    return folder


def sentences(code: str, count: int, seed: int = 9) -> list[Sentence]:
    """Sentences of one of the group's languages, under its code."""
    made = MADE.sentences(ACTORS[code], count, seed)
    for sentence in made:
        sentence.language = code
    return made
