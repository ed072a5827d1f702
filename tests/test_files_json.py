"""JSON files from outside."""

from pathlib import Path

import pytest

from zgul.errors import ZgulError
from zgul.files import MAX_DEPTH, MAX_JSON, read_json, write_json


def test_what_is_written_is_read(tmp_path: Path) -> None:
    value = {"name": "Føroyskt", "sizes": [1, 2.5, None, True], "nested": {"a": {}}, "large": 10**29}
    write_json(tmp_path / "new" / "x.json", value)
    assert read_json(tmp_path / "new" / "x.json") == value
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x.json"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"old": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "x.json", {"new": object()})
    assert read_json(tmp_path / "x.json") == {"old": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "x.json") == {"a": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON"),
        (b'{"a": 1', "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[1]", "must contain a JSON object"),
        (b"null", "must contain a JSON object"),
        (b'{"a": ' * 200_000, "larger than"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * MAX_DEPTH + b"[1]" + b"}" * MAX_DEPTH, "nested too deeply"),
        (b'{"a": {"b": [0, ' + b"9" * 5000 + b"]}}", r"a\.b\.1 has more than the 40 digits"),
        (b'{"a": ' + b"9" * 41 + b"}", r"a has more than the 40 digits"),
        (b'{"a": -' + b"9" * 41 + b"}", r"a has more than the 40 digits"),
        (b'{"a": ["\\ud800"]}', "not valid JSON"),
        (b'{"\\udfff": 1}', "not valid JSON"),
        (b"9" * 5000, "the number has more than the 40 digits"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ZgulError, match=rf"x\.json.*{message}") as caught:
        read_json(tmp_path / "x.json")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_depth_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH)
    assert read_json(tmp_path / "x.json")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match=r"x\.json cannot be read \(No such file"):
        read_json(tmp_path / "x.json")
    with pytest.raises(ZgulError, match=r"cannot be read .Is a directory"):
        read_json(tmp_path)
    (tmp_path / "file").write_text("{}")
    with pytest.raises(ZgulError, match=r"cannot be read .Not a directory"):
        read_json(tmp_path / "file" / "x.json")


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": "b" * MAX_JSON})
    with pytest.raises(ZgulError, match="larger than 1,000,000 bytes"):
        read_json(tmp_path / "x.json")
