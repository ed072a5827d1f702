"""Files here and elsewhere, by URL."""

import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from zgul.cluster import places
from zgul.cluster.shards import CorpusJob, cut_input, tag_shard
from zgul.errors import ZgulError


@pytest.fixture
def memory() -> Iterator[str]:
    system = fsspec.filesystem("memory")
    yield "memory://corpus"
    system.rm("/corpus", recursive=True)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a local stand-in for S3."""
    if not all(map(importlib.util.find_spec, ("s3fs", "moto", "flask"))):
        pytest.skip("needs a stand-in for S3: pip install s3fs 'moto[s3,server]'")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "ENDPOINT_URL": f"http://{host}:{port}"}
    for name, value in {**settings, "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    fsspec.filesystem("s3").mkdir("bucket")
    yield "s3://bucket"
    server.stop()
    fsspec.filesystem("s3").clear_instance_cache()


def check_place(folder: str) -> None:
    """Everything that is done with places."""
    places.write_whole(f"{folder}/in/a.txt", b"one two")
    places.write_whole(f"{folder}/in/sub/b.txt.gz", b"\x1f\x8b")
    places.write_whole(f"{folder}/in/.hidden", b"")
    places.write_whole(f"{folder}/in/out/old.conllu", b"")
    assert places.read_whole(f"{folder}/in/a.txt") == b"one two"
    assert places.sizes(f"{folder}/in") == {"a.txt": 7, "sub/b.txt.gz": 2, ".hidden": 0, "out/old.conllu": 0}
    assert places.sizes(f"{folder}/none") == {}
    found = places.find_inputs([f"{folder}/in"], f"{folder}/in/out", "tsv")
    assert list(found) == ["a.tsv", "sub/b.tsv"]
    assert places.look(found["a.tsv"])[0] == 7
    with places.open_counted(found["a.tsv"]) as (counted, content):
        assert content.read() == b"one two"
        assert (counted.size, counted.digest.hexdigest()) == (7, hashlib.sha256(b"one two").hexdigest())
    assert list(places.find_inputs([f"{folder}/in/*.txt"], f"{folder}/out", "tsv")) == ["a.tsv"]
    with pytest.raises(ZgulError, match=r"none\.txt: no such file"):
        places.find_inputs([f"{folder}/in/none.txt"], f"{folder}/out", "tsv")
    places.write_whole(f"{folder}/in/a.txt", b"three")
    assert places.read_whole(f"{folder}/in/a.txt") == b"three"


def check_tagging(folder: str) -> None:
    """Text there is tagged as text here."""
    job = CorpusJob("fo", "pos", (("em", False),), shard_words=300)
    places.write_whole(f"{folder}/book.txt", Path("texts/book.txt").read_bytes())
    for source, output in (("texts/book.txt", "here"), (f"{folder}/book.txt", f"{folder}/tagged")):
        for cut, windows in cut_input(source, job):
            tag_shard(job, cut, windows, output, f"{cut.number}.conllu")
    here, there = places.sizes("here"), places.sizes(f"{folder}/tagged")
    assert here == there and len(there) > 2
    for name in there:
        assert places.read_whole(f"{folder}/tagged/{name}") == (Path("here") / name).read_bytes()


def test_memory(memory: str, folder: Path) -> None:
    check_place(memory)
    check_tagging(memory)


def test_urls_of_local_files(folder: Path) -> None:
    check_place(f"file://{folder}/there")
    check_tagging(f"file://{folder}/other")
    assert not list(folder.rglob("*.tmp"))


def test_a_stand_in_for_s3(bucket: str, folder: Path) -> None:
    check_place(f"{bucket}/place")
    check_tagging(f"{bucket}/tagging")


def test_urls_that_mean_nothing() -> None:
    with pytest.raises(ZgulError, match="Protocol not known"):
        places.find_inputs(["nowhere://a"], "out", "tsv")
    with pytest.raises(ZgulError, match="standard input cannot be tagged on a cluster"):
        places.find_inputs(["-"], "out", "tsv")


def test_two_inputs_never_share_an_output(folder: Path) -> None:
    Path("texts/a.conllu").write_text("")
    with pytest.raises(ZgulError, match=r"a\.conllu and .*a\.txt would both be written to a\.tsv"):
        places.find_inputs(["texts"], "out", "tsv")


def test_what_killed_workers_left_elsewhere_is_removed(tmp_path: Path) -> None:
    folder = f"file://{tmp_path}/out"
    places.write_whole(f"{folder}/a.conllu", b"done")
    (tmp_path / "out" / "sub").mkdir()
    for name in ("a.conllu.0123abcd.tmp", "sub/b.conllu.ffffffff.tmp", "notes.tmp"):
        (tmp_path / "out" / name).write_bytes(b"half")
    places.remove_litter(folder)
    assert places.sizes(folder) == {"a.conllu": 4, "notes.tmp": 4}
    places.remove_litter(f"file://{tmp_path}/none")
