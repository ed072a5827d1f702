"""Shards without a cluster: what is cut, tagged and written, and that it is what `zgul tag` writes."""

import lzma
from dataclasses import replace
from pathlib import Path

import pytest

import zgul
from zgul.cluster.shards import CorpusJob, Cut, Reader, Windows, cut_input, load_once, tag_shard
from zgul.errors import ZgulError
from zgul.tagging.tag_files import FileSettings, tag_file

JOB = CorpusJob("fo", "pos", (("em", False),), shard_words=300)


def tag_all(place: str, job: CorpusJob, output: Path) -> bytes:
    """The outputs of all shards, one after the other."""
    names = []
    for cut, windows in cut_input(place, job):
        names.append(tag_shard(job, cut, windows, str(output), f"{cut.number:06}").output)
    assert len(names) > 2
    return b"".join((output / name).read_bytes() for name in names)


@pytest.mark.parametrize("form", ["conllu", "tsv", "json"])
def test_shards_give_what_zgul_tag_gives(folder: Path, form: str) -> None:
    files = FileSettings(form, probabilities=form == "tsv")
    tag_file(zgul.load("fo", "pos", em=False), "texts/book.txt", "whole", files)
    assert tag_all("texts/book.txt", replace(JOB, files=files), folder / "out") == Path("whole").read_bytes()


def test_shards_of_conllu_and_of_packed_text(folder: Path) -> None:
    tagger = zgul.load("fo", "pos", em=False)
    tag_file(tagger, "texts/book.txt", "whole.conllu")
    Path("book.txt.xz").write_bytes(lzma.compress(Path("texts/book.txt").read_bytes()))
    whole = Path("whole.conllu").read_bytes()
    assert tag_all("book.txt.xz", JOB, folder / "packed") == whole
    assert tag_all("whole.conllu", JOB, folder / "conllu") == whole, "its own tags again"


def test_a_reader_gives_the_same_shard_again(folder: Path) -> None:
    shards = list(cut_input("texts/book.txt", JOB))
    assert [cut.number for cut, _ in shards] == list(range(len(shards)))
    assert [cut.last for cut, _ in shards] == [False] * (len(shards) - 1) + [True]
    assert sum(cut.sentences for cut, _ in shards) == 300
    reader = Reader(JOB)
    for number in (0, 1, 1, 0, 3, 2):
        assert reader.read("texts/book.txt", number) == shards[number]
    assert reader.read("texts/book.txt", 2, shards[2][0].text) == (shards[2][0], []), "known ones travel without words"


def test_a_text_that_changed_is_not_mixed_with_old_tags(folder: Path) -> None:
    before = [cut.text for cut, _ in cut_input("texts/book.txt", JOB)]
    Path("texts/book.txt").write_text(Path("texts/book.txt").read_text().replace("!", "?"))
    with pytest.raises(ZgulError, match=r"is not the text that was tagged before: shard 0.*--force"):
        Reader(JOB).read("texts/book.txt", 0, before[0])


def test_a_process_loads_a_tagger_once_and_refuses_another_version(folder: Path) -> None:
    assert load_once(JOB, "fo") is load_once(JOB, "fo")
    cut: Cut
    windows: Windows
    cut, windows = next(cut_input("texts/a.txt", JOB))
    with pytest.raises(ZgulError, match=r"A worker has zgul .*, but the command zgul 9\.9"):
        tag_shard(replace(JOB, version="9.9"), cut, windows, str(folder / "out"), "a")
    assert not (folder / "out").exists()


def test_every_choice_that_changes_tags_is_in_the_settings() -> None:
    ways = [
        CorpusJob("fo", "pos", (("em", em), ("em_steps", steps))) for em in (None, True, False) for steps in (None, 0)
    ]
    assert len({str(job.settings()) for job in ways}) == len(ways)


def test_inputs_that_zgul_refuses(folder: Path) -> None:
    Path("empty.txt").write_text(" \n")
    Path("cut.txt.xz").write_bytes(lzma.compress(b"sapuri ha sasike hawa " * 90)[:-20])
    for name, problem in {"empty.txt": "holds no words", "cut.txt.xz": "damaged", "none.txt": "no such file"}.items():
        with pytest.raises(ZgulError, match=problem):
            list(cut_input(name, JOB))
