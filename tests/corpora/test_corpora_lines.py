"""Broken input is met in one place: a clear error with file and line, or a repair that is announced."""

import bz2
import gzip
import io
import lzma
import sys
import warnings
from pathlib import Path

import pytest

from zgul.corpora import lines as lines_module
from zgul.corpora.lines import Lines, check_words
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import create_binary

zstandard = pytest.importorskip("zstandard")

PACKERS = {
    "": bytes,
    ".xz": lzma.compress,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
TEXT = "".join(f"line {number} føroyskt\n" for number in range(2000))


def given(tmp_path: Path, data: bytes, name: str = "in.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", PACKERS)
def test_every_packing_is_read_and_written(tmp_path: Path, suffix: str) -> None:
    path = given(tmp_path, PACKERS[suffix](TEXT.encode()), f"in.txt{suffix}")
    assert "".join(f"{line}\n" for line in Lines(path)) == TEXT
    written = tmp_path / f"out.txt{suffix}"
    with create_binary(written) as file:
        file.write(TEXT.encode())
    assert list(Lines(written)) == TEXT.splitlines()
    if suffix:
        assert written.stat().st_size < len(TEXT) / 5
    assert [path.name for path in tmp_path.glob(".*")] == []


@pytest.mark.parametrize("suffix", [suffix for suffix in PACKERS if suffix])
def test_a_truncated_packed_file_is_an_error_with_its_place(tmp_path: Path, suffix: str) -> None:
    packed = PACKERS[suffix](TEXT.encode())
    path = given(tmp_path, packed[:-12], f"in.txt{suffix}")
    with pytest.raises(ZgulError, match=r"in\.txt\.\w+, after line \d+: damaged or cut short"):
        list(Lines(path))


@pytest.mark.parametrize("suffix", [suffix for suffix in PACKERS if suffix])
def test_garbage_that_claims_to_be_packed_is_an_error(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(ZgulError, match="damaged"):
        list(Lines(given(tmp_path, b"no such thing\n" * 50, f"in.txt{suffix}")))


def test_several_zstandard_frames_are_one_file(tmp_path: Path) -> None:
    pack = PACKERS[".zst"]
    assert list(Lines(given(tmp_path, pack(b"a\n") + pack(b"b\n"), "in.zst"))) == ["a", "b"]


def test_a_zstandard_file_that_unpacks_to_much_more_than_its_size(tmp_path: Path) -> None:
    path = given(tmp_path, PACKERS[".zst"](b"the same again\n" * 1_000_000), "in.zst")
    assert path.stat().st_size < 10_000
    assert sum(line == "the same again" for line in Lines(path)) == 1_000_000


def test_zst_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ZgulError, match=r"pip install 'zgul\[zstd\]'"):
        list(Lines(given(tmp_path, b"", "in.zst")))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\nb\xff\n", r"line 2: byte 2 \(0xff\) is not UTF-8"),
        (b"a\nb\0c\n", "line 2: a NUL character"),
        ("a\n".encode("utf-16"), "line 1: this is UTF-16"),
        (b"a\n\xe2\x82", "line 2: byte 1"),
    ],
)
def test_what_is_not_utf8_text_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        list(Lines(given(tmp_path, data)))


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE", 64)
    with pytest.raises(ZgulError, match="line 2: longer than"):
        list(Lines(given(tmp_path, b"a\n" + b"x" * 1000)))
    with pytest.raises(ZgulError, match="longer than"):  # cut inside a character
        list(Lines(given(tmp_path, b"x" + "ø".encode() * 1000)))
    assert list(Lines(given(tmp_path, b"x" * 63 + b"\n"))) == ["x" * 63]


def test_bom_and_windows_line_ends_are_repaired_and_announced_once(tmp_path: Path) -> None:
    path = given(tmp_path, "\ufeffa\r\nb\r\nc\r\n".encode())
    with pytest.warns(ZgulWarning) as caught:
        assert list(Lines(path)) == ["a", "b", "c"]
    assert [str(warning.message).partition(", ")[2] for warning in caught] == [
        "line 1: Windows line ends are read as plain ones",
        "line 1: the byte-order mark at the start of the file was dropped",
    ]


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    text = "a\u2028b\x0bc\x85d\re"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(Lines(given(tmp_path, text.encode() + b"\n"))) == [text]


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match="no such file"):
        list(Lines(tmp_path / "absent.xz"))
    with pytest.raises(ZgulError, match="is a folder"):
        list(Lines(tmp_path))
    with pytest.raises(ZgulError, match="is a folder"), create_binary(tmp_path):
        pass
    with pytest.raises(ZgulError, match="cannot be opened"):
        list(Lines(given(tmp_path, b"") / "below"))
    with pytest.raises(ZgulError, match="cannot be written"), create_binary(given(tmp_path, b"") / "below"):
        pass
    with pytest.raises(ZgulError, match="cannot be opened"):
        list(Lines(tmp_path / ("x" * 5000)))


def test_open_streams_of_bytes_and_text() -> None:
    assert list(Lines(io.BytesIO(b"a\nb"))) == ["a", "b"]
    assert list(Lines(io.StringIO("a\nb"))) == ["a", "b"]
    with pytest.raises(ZgulError, match="not UTF-8"):
        list(Lines(io.TextIOWrapper(io.BytesIO(b"\xff\n"), encoding="utf-8")))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"a\nb\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(Lines("-")) == ["a", "b"]
    assert not stdin.closed and Lines("-").name == "standard input"


def test_a_failing_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = given(tmp_path, b"old")

    with pytest.raises(RuntimeError), create_binary(path) as file:
        file.write(b"new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize("word", ["", " ", "a\tb", "a\nb", "a\rb", "\0"])
def test_words_that_would_break_a_line_are_refused(word: str) -> None:
    with pytest.raises(ZgulError, match="cannot be written"):
        check_words(["fine", word])
