"""Outputs that appear whole, and going on with those that were interrupted."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.tagging.documents import FORMATS, Layer, TaggedSentence
from zgul.tagging.tag_files import FileSettings, OutputFile

WINDOWS = [[Sentence([f"w{i}{j}", "x"]) for j in range(i + 1)] for i in range(4)]


def renderer(form: str, tag: str = "NOUN") -> Callable[..., str]:
    def block(sentence: Sentence, number: int) -> str:
        words = sentence.words
        layers = {"pos": Layer([tag] * len(words), [0.9] * len(words))}
        offsets = [(0, len(words[0])), (len(words[0]) + 1, len(words[0]) + 2)]
        return TaggedSentence(" ".join(words), words, offsets, layers, "fo").to_text(form, number)

    return lambda window, number=1: "".join(block(sentence, n) for n, sentence in enumerate(window, start=number))


def whole(form: str = "conllu") -> bytes:
    number, text = 1, ""
    for window in WINDOWS:
        text += renderer(form)(window, number)
        number += len(window)
    return text.encode()


def write(file: OutputFile, windows: list[list[Sentence]] = WINDOWS, tag: str = "NOUN") -> int:
    """Tag what is left. Returns how many sentences were held."""
    file.check()
    render = renderer(file.settings.format, tag)
    left = file.skip_held(iter(windows), render)
    if left is None:
        return file.held
    number = file.held + 1
    with file.open() as sink:
        for window in left:
            sink.write(render(window, number).encode())
            number += len(window)
    return file.held


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["out", "out.part"])  # the second is where unfinished outputs are now
def test_a_file_cut_off_anywhere_goes_on_to_the_same_file(tmp_path: Path, form: str, name: str) -> None:
    path, complete = tmp_path / "out", whole(form)
    for cut in range(1, len(complete), 7):
        path.unlink(missing_ok=True)
        (tmp_path / name).write_bytes(complete[:cut])
        write(OutputFile(path, FileSettings(form, resume=True)))
        assert path.read_bytes() == complete
        assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_a_complete_file_is_kept_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert write(OutputFile(path, FileSettings("tsv"))) == 0
    made = path.stat()
    for resume in (False, True):
        assert write(OutputFile(path, FileSettings("tsv", resume=resume))) == 10
    assert path.stat().st_mtime_ns == made.st_mtime_ns and path.read_bytes() == whole("tsv")


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["out", "out.part"])
def test_a_file_of_other_content_is_refused_and_stays(tmp_path: Path, resume: bool, name: str) -> None:
    if name == "out.part" and not resume:
        return
    file, there = OutputFile(tmp_path / "out", FileSettings("conllu", resume=resume)), tmp_path / name

    def refused(content: bytes, problem: str, windows: list[list[Sentence]] = WINDOWS, tag: str = "NOUN") -> None:
        there.write_bytes(content)
        with pytest.raises(ZgulError, match=problem):
            write(file, windows, tag)
        assert there.read_bytes() == content and len(list(tmp_path.iterdir())) == 1

    refused(whole().replace(b"w21", b"other"), "sentence 5 has other words")
    refused(whole(), "tagged in another way", tag="VERB")
    refused(whole(), "more sentences than the input", windows=WINDOWS[:2])
    refused(b"a letter to my mother", "holds something else")
    refused(b"a letter\n\nto my mother", "not a file of this format|other words")
    refused(b"\x00\xff binary", "holds something else")


def test_only_force_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"a letter to my mother")
    write(OutputFile(path, FileSettings("conllu", force=True)))
    assert path.read_bytes() == whole()
    path.write_bytes(b"")
    write(OutputFile(path, FileSettings("conllu")))
    assert path.read_bytes() == whole(), "an empty file holds nothing that could be lost"


def test_an_unfinished_file_asks_what_to_do_with_it(tmp_path: Path) -> None:
    path, part = tmp_path / "out", tmp_path / "out.part"
    part.write_bytes(whole()[:100])
    with pytest.raises(ZgulError, match=r"out\.part was not finished.*--resume.*--force"):
        OutputFile(path, FileSettings("conllu")).check()
    path.write_bytes(whole()[:300])
    part.unlink()
    with pytest.raises(ZgulError, match=r"out is not complete.*--resume.*--force"):
        write(OutputFile(path, FileSettings("conllu")))
    part.write_bytes(whole()[:300])
    path.write_text("a letter")
    with pytest.raises(ZgulError, match=r"out exists beside .*out\.part. Replace it with --force"):
        write(OutputFile(path, FileSettings("conllu", resume=True)))
    write(OutputFile(path, FileSettings("conllu", resume=True, force=True)))
    assert path.read_bytes() == whole() and not part.exists()
    part.write_text("a letter")
    path.unlink()
    write(OutputFile(path, FileSettings("conllu", force=True)))
    assert path.read_bytes() == whole() and not part.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "link to nothing", "folder"])
@pytest.mark.parametrize("how", [{}, {"resume": True}, {"force": True}], ids=["plain", "resume", "force"])
def test_only_plain_files_are_continued(tmp_path: Path, kind: str, how: dict[str, bool]) -> None:
    """A pipe would be waited for, and a link to nothing would put the output elsewhere."""
    part, elsewhere = tmp_path / "out.part", tmp_path / "elsewhere"
    if kind == "folder":
        part.mkdir()
    elif kind == "pipe":
        os.mkfifo(part)
    else:
        part.symlink_to(elsewhere)
        if kind == "link to a pipe":
            os.mkfifo(elsewhere)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ZgulError, match=r"out\.part is no plain file and cannot be continued"):
        OutputFile(tmp_path / "out", FileSettings("conllu", **how)).check()
    assert sorted(tmp_path.iterdir()) == before


def test_a_link_to_an_unfinished_file_is_continued(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(whole()[:300])
    (tmp_path / "out.part").symlink_to(tmp_path / "elsewhere")
    assert write(OutputFile(tmp_path / "out", FileSettings("conllu", resume=True))) > 0
    assert (tmp_path / "out").read_bytes() == whole()


def test_what_ends_writing_early_leaves_the_part_and_says_how_to_go_on(tmp_path: Path) -> None:
    file = OutputFile(tmp_path / "out", FileSettings("conllu", resume=True))
    (tmp_path / "out").write_bytes(b"")
    for error in (KeyboardInterrupt(), ZgulError("book.txt, line 9: NUL.")):
        with pytest.raises(type(error), match=r"out\.part.*--resume"), file.open() as sink:
            sink.write(whole()[:300])
            raise error
        assert (tmp_path / "out").read_bytes() == b"" and file.part.read_bytes() == whole()[:300]
    assert write(file) == 3
    assert (tmp_path / "out").read_bytes() == whole()


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    for path, problem in (
        (tmp_path, "is a folder"),
        (tmp_path / "nowhere" / "out", "there is no folder"),
        (tmp_path / "out.xz", "not compressed"),
    ):
        with pytest.raises(ZgulError, match=problem):
            OutputFile(path, FileSettings("conllu")).check()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_devices_are_written_directly() -> None:
    with pytest.raises(ZgulError, match=r"/dev/full cannot be written \(No space left on device\)"):
        write(OutputFile(Path("/dev/full"), FileSettings("conllu")))
    for _ in range(2):
        assert write(OutputFile(Path(os.devnull), FileSettings("conllu"))) == 0
    assert not Path(os.devnull + ".part").exists()


def test_nothing_is_read_ahead(tmp_path: Path) -> None:
    """Windows are tagged one by one."""
    taken = 0

    def windows() -> Iterator[list[Sentence]]:
        nonlocal taken
        for window in WINDOWS:
            taken += 1
            yield window

    left = OutputFile(tmp_path / "out", FileSettings("tsv")).skip_held(windows(), renderer("tsv"))
    assert taken == 0 and left is not None
    next(left)
    assert taken == 1


def test_two_processes_never_write_one_output(tmp_path: Path) -> None:
    path, render = tmp_path / "out", renderer("conllu")
    first, second, third = (OutputFile(path, FileSettings("conllu", force=force)) for force in (False, False, True))
    for file in (first, second, third):
        file.check()  # none has written anything yet
        assert file.skip_held(iter(WINDOWS), render) is not None
    with first.open() as sink:
        sink.write(b"a")
        sink.flush()
        for other in (second, third):
            with pytest.raises(ZgulError, match=r"Another process is writing .*out\. Wait for it"), other.open():
                pass
        sink.write(b"b")
    assert path.read_bytes() == b"ab"
    with pytest.raises(ZgulError, match="out was written by another process"), second.open():
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("resume", [False, True])
def test_what_another_process_left_in_the_meantime_is_not_overwritten(tmp_path: Path, resume: bool) -> None:
    file, part = OutputFile(tmp_path / "out", FileSettings("conllu", resume=resume)), tmp_path / "out.part"
    if resume:
        part.write_bytes(whole()[:300])
    file.check()
    assert file.skip_held(iter(WINDOWS), renderer("conllu")) is not None
    assert (file.size > 0) == resume
    part.write_bytes(b"another")  # by a process that was killed since
    with pytest.raises(ZgulError, match=r"out\.part was written by another process"), file.open():
        pass
    assert part.read_bytes() == b"another"


def test_an_output_with_deep_nesting_is_no_output_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("[" * 100_000 + "\n")
    with pytest.raises(ZgulError, match="is another text or format"):
        write(OutputFile(path, FileSettings("json", resume=True)))
