"""Fetching, against a server on this machine that speaks HTTP and misbehaves on request."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zgul.corpora import catalogue, load
from zgul.corpora.catalogue import Dataset, File
from zgul.corpora.download import Settings, download
from zgul.corpora.fetch import MANIFEST, fetch
from zgul.errors import ZgulError

QUICK = Settings(timeout=2, attempts=3, backoff=0.001)
BODY = bytes(range(256)) * 1000  # 256 kB
DIGEST = hashlib.sha256(BODY).hexdigest()


def conllu(*words: str, tag: str = "NOUN") -> bytes:
    rows = [f"{i}\t{w}\t_\t{tag}\t_\t_\t0\troot\t_\t_\n" for i, w in enumerate(words, start=1)]
    return f"# text = {' '.join(words)}\n{''.join(rows)}\n".encode()


@dataclass
class Served:
    """One file and the ways in which the server gets it wrong."""

    body: bytes
    etag: str | None = '"v1"'
    modified: str | None = None
    kind: str = "application/octet-stream"
    coding: str | None = None
    breaks: list[int] = field(default_factory=list)  # the next answers stop after so many bytes
    statuses: list[int] = field(default_factory=list)  # the next answers are these errors
    claims: int | None = None  # a false Content-Length
    ranges: bool = True  # honours Range
    shift: int = 0  # continues at another place than asked
    understates: int = 0  # by how much, when it continues
    silent_length: bool = False  # sends no Content-Length
    stalls: float = 0.0  # seconds of silence after the header


class Server(ThreadingHTTPServer):
    """Serves ``files``; ``requests`` remembers (path, Range) of every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, Served] = {}
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        self.server.requests.append((path, self.headers.get("Range")))
        served = self.server.files.get(path)
        if served is None:
            self.send_error(404)
            return
        if served.statuses:
            self.send_error(served.statuses.pop(0))
            return
        start = self._start(served)
        if start is not None and start >= len(served.body):
            self.send_error(416)
            return
        body = served.body[start or 0 :]
        self.send_response(200 if start is None else 206)
        if start is not None:
            first = start + served.shift
            total = len(served.body) - served.understates
            self.send_header("Content-Range", f"bytes {first}-{total - 1}/{total}")
        for name, value in (
            ("ETag", served.etag),
            ("Last-Modified", served.modified),
            ("Content-Type", served.kind),
            ("Content-Encoding", served.coding),
            ("Content-Length", None if served.silent_length else str(served.claims or len(body))),
        ):
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        time.sleep(served.stalls)
        self.wfile.write(body[: served.breaks.pop(0)] if served.breaks else body)

    def _start(self, served: Served) -> int | None:
        wanted = self.headers.get("Range")
        same = self.headers.get("If-Range") in (served.etag, served.modified)
        if not (wanted and served.ranges and same):
            return None
        return int(wanted.removeprefix("bytes=").removesuffix("-"))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# One file


def test_a_file_arrives_whole_and_alone(server, tmp_path):
    server.files["x"] = Served(BODY)
    seen = []
    assert download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK, lambda *a: seen.append(a)) == DIGEST
    assert (tmp_path / "x").read_bytes() == BODY
    assert names(tmp_path) == ["x"]
    assert seen[-1] == ("x", len(BODY), len(BODY), "bytes")


@pytest.mark.parametrize("validator", [{}, {"etag": None, "modified": "Wed, 21 Oct 2015 07:28:00 GMT"}])
def test_what_breaks_off_is_continued(server, tmp_path, validator):
    server.files["x"] = Served(BODY, breaks=[1000, 100_000], **validator)
    download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert (tmp_path / "x").read_bytes() == BODY
    assert [r for _, r in server.requests] == [None, "bytes=1000-", "bytes=101000-"]


@pytest.mark.parametrize("trouble", [{"ranges": False}, {"etag": None}, {"etag": 'W/"weak"'}])
def test_what_cannot_be_continued_is_begun_again(server, tmp_path, trouble):
    server.files["x"] = Served(BODY, breaks=[1000], **trouble)
    download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_later_run_continues_an_earlier_one(server, tmp_path):
    server.files["x"] = Served(BODY, breaks=[1000, 0, 0])
    with pytest.raises(ZgulError, match=r"1,000 of 256,000 bytes.*run the same command again"):
        download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert not (tmp_path / "x").exists()
    server.requests.clear()
    download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert server.requests == [("x", "bytes=1000-")]
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_file_that_changed_in_between_is_not_patched_together(server, tmp_path):
    server.files["x"] = Served(b"a" * 5000, breaks=[1000, 0, 0])
    with pytest.raises(ZgulError):
        download(f"{server.url}/x", tmp_path / "x", None, QUICK)
    server.files["x"] = Served(b"b" * 5000, etag='"v2"')
    download(f"{server.url}/x", tmp_path / "x", None, QUICK)
    assert (tmp_path / "x").read_bytes() == b"b" * 5000


def test_a_file_that_shrank_in_between_is_begun_again(server, tmp_path):
    server.files["x"] = Served(b"a" * 5000, breaks=[4000, 0, 0])
    with pytest.raises(ZgulError):
        download(f"{server.url}/x", tmp_path / "x", None, QUICK)
    server.files["x"] = Served(b"a" * 3000)  # same ETag: only the 416 tells
    download(f"{server.url}/x", tmp_path / "x", None, QUICK)
    assert (tmp_path / "x").read_bytes() == b"a" * 3000


@pytest.mark.parametrize("lie", [{"shift": 7}, {"understates": 7}])
def test_a_server_that_continues_with_something_else_is_not_believed(server, tmp_path, lie):
    server.files["x"] = Served(BODY, breaks=[1000], **lie)
    download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_wrongly_continued_file_is_fetched_once_more(server, tmp_path):
    server.files["x"] = Served(b"z" * len(BODY), breaks=[1000, 0, 0])
    with pytest.raises(ZgulError):
        download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    server.files["x"] = Served(BODY)  # other content under the same ETag
    download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_length_that_claims_too_much(server, tmp_path):
    server.files["x"] = Served(BODY, claims=len(BODY) + 10)
    with pytest.raises(ZgulError, match="given up after"):
        download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert not (tmp_path / "x").exists()


def test_a_length_that_claims_too_little(server, tmp_path):
    server.files["x"] = Served(BODY, claims=len(BODY) - 10)
    with pytest.raises(ZgulError, match="wrong checksum"):
        download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert names(tmp_path) == []


def test_no_length_at_all(server, tmp_path):
    server.files["x"] = Served(BODY, silent_length=True)
    download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert (tmp_path / "x").read_bytes() == BODY


def test_garbage_is_dropped(server, tmp_path):
    server.files["x"] = Served(b"\x00garbage" * 99)
    with pytest.raises(ZgulError, match=f"wrong checksum.*{DIGEST}"):
        download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert names(tmp_path) == []


def test_a_web_page_is_not_a_file(server, tmp_path):
    server.files["x"] = Served(b"<html>please log in</html>", kind="text/html; charset=utf-8")
    with pytest.raises(ZgulError, match="web page instead"):
        download(f"{server.url}/x", tmp_path / "x", None, QUICK)
    assert names(tmp_path) == []


def test_a_coding_that_was_not_asked_for(server, tmp_path):
    server.files["x"] = Served(gzip.compress(BODY), coding="gzip")
    with pytest.raises(ZgulError, match="gzip-coded"):
        download(f"{server.url}/x", tmp_path / "x", None, QUICK)


def test_a_missing_file_is_asked_for_once(server, tmp_path):
    with pytest.raises(ZgulError, match=r"404 Not Found; check the address"):
        download(f"{server.url}/x", tmp_path / "x", None, QUICK)
    assert len(server.requests) == 1


def test_a_server_in_trouble_is_asked_again(server, tmp_path):
    server.files["x"] = Served(BODY, statuses=[500, 503])
    download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)
    assert len(server.requests) == 3


def test_a_server_that_stays_in_trouble(server, tmp_path):
    server.files["x"] = Served(BODY, statuses=[500] * 9)
    with pytest.raises(ZgulError, match=r"500 Internal Server Error.*after 3 attempts"):
        download(f"{server.url}/x", tmp_path / "x", DIGEST, QUICK)


def test_nobody_there(server, tmp_path):
    url = server.url
    server.server_close()
    with pytest.raises(ZgulError, match="no connection"):
        download(f"{url}/x", tmp_path / "x", None, QUICK)


def test_a_server_that_falls_silent(server, tmp_path):
    server.files["x"] = Served(BODY, stalls=0.4)
    impatient = Settings(timeout=0.1, attempts=2, backoff=0.001)
    with pytest.raises(ZgulError, match="timed out"):
        download(f"{server.url}/x", tmp_path / "x", DIGEST, impatient)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(
    breaks=st.lists(st.integers(0, len(BODY)), max_size=8),
    statuses=st.lists(st.sampled_from([429, 500, 502, 503]), max_size=2),
    ranges=st.booleans(),
    etag=st.sampled_from(['"v1"', 'W/"v1"', None]),
)
def test_whatever_happens_the_file_is_whole_or_absent(server, tmp_path, breaks, statuses, ranges, etag):
    server.files["x"] = Served(BODY, etag=etag, ranges=ranges, breaks=breaks, statuses=statuses)
    target = tmp_path / "x"
    target.unlink(missing_ok=True)
    try:
        download(f"{server.url}/x", target, None, QUICK)  # without a checksum to save it
    except ZgulError as error:
        assert "given up" in str(error) and not target.exists()
    else:
        assert target.read_bytes() == BODY


@pytest.mark.parametrize("silent", [False, True])
def test_the_size_limit(server, tmp_path, silent):
    server.files["x"] = Served(BODY, silent_length=silent)
    with pytest.raises(ZgulError, match="limit of 1,000 bytes"):
        download(f"{server.url}/x", tmp_path / "x", None, Settings(max_bytes=1000))
    assert "x" not in names(tmp_path)


# Whole datasets


def dataset(name: str, *paths: str, split: str = "train", language: str = "en", **more: object) -> Dataset:
    fields = {
        "task": "pos",
        "role": "source",
        "groups": ("germanic",),
        "reader": "conllu",
        "release": "r2.5",
        "licence": "CC0",
        "host": "http://127.0.0.1:9",
        "homepage": "https://example.org",
        "files": tuple(File(split, path) for path in paths),
    }
    return Dataset(name=name, language=language, **{**fields, **more})


@pytest.fixture
def listed(monkeypatch):
    """Puts datasets, and checksums by path, into the catalogue for the test."""

    def put(*datasets: Dataset, checksums: dict[str, str] | None = None) -> None:
        monkeypatch.setattr(catalogue, "DATASETS", datasets)
        monkeypatch.setattr(catalogue, "_checksums", lambda: checksums or {})

    return put


def get(server: Server, folder, *datasets: Dataset):
    return fetch(datasets, folder, server.url, QUICK)


def words(folder, split="train", language="en", task="pos") -> list[list[str]]:
    return [sentence.words for sentence in load(folder, task, language, split)]


def test_treebanks_of_a_language_are_joined_in_catalogue_order(server, tmp_path, listed):
    one, two = dataset("ud/en_one", "one"), dataset("ud/en_two", "two-a", "two-b")
    listed(one, two)
    server.files |= {
        "one": Served(conllu("one")),
        "two-a": Served(conllu("two", "a")),
        "two-b": Served(conllu("two", "b")),
    }
    get(server, tmp_path, two)
    assert words(tmp_path) == [["two", "a"], ["two", "b"]]
    get(server, tmp_path, one)
    assert words(tmp_path) == [["one"], ["two", "a"], ["two", "b"]]


def test_a_second_run_asks_for_nothing_and_changes_nothing(server, tmp_path, listed):
    known, unknown = dataset("ud/en_known", "known"), dataset("ud/en_unknown", "unknown")
    server.files |= {"known": Served(conllu("known")), "unknown": Served(conllu("unknown"))}
    listed(known, unknown, checksums={"known": hashlib.sha256(conllu("known")).hexdigest()})
    first = get(server, tmp_path, known, unknown)
    assert [(f.trust, f.downloaded) for f in first] == [("catalogue", True), ("first fetch", True)]
    assert list(json.loads((tmp_path / MANIFEST).read_text())["checksums"]) == ["unknown"]
    before = (tmp_path / "pos/en/train.tsv").read_bytes()
    server.requests.clear()
    second = get(server, tmp_path, known, unknown)
    assert [(f.trust, f.downloaded) for f in second] == [("catalogue", False), ("earlier fetch", False)]
    assert server.requests == []
    assert (tmp_path / "pos/en/train.tsv").read_bytes() == before


def test_a_damaged_copy_is_fetched_again(server, tmp_path, listed):
    one = dataset("ud/en_one", "one")
    listed(one)
    server.files["one"] = Served(conllu("one"))
    (fetched,) = get(server, tmp_path, one)
    fetched.path.write_bytes(b"damaged")
    (again,) = get(server, tmp_path, one)
    assert again.downloaded and words(tmp_path) == [["one"]]


def test_a_file_trusted_once_must_stay_the_same(server, tmp_path, listed):
    one = dataset("ud/en_one", "one")
    listed(one)
    server.files["one"] = Served(conllu("one"))
    (fetched,) = get(server, tmp_path, one)
    fetched.path.unlink()
    server.files["one"] = Served(conllu("other"))
    with pytest.raises(ZgulError, match=r"another file than at the first fetch.*fetched\.json"):
        get(server, tmp_path, one)
    assert words(tmp_path) == [["one"]]


def test_a_checksum_of_the_catalogue_is_binding(server, tmp_path, listed):
    one = dataset("ud/en_one", "one")
    listed(one, checksums={"one": DIGEST})
    server.files["one"] = Served(conllu("one"))
    with pytest.raises(ZgulError, match=r"wrong checksum(.|\n)*another mirror"):
        get(server, tmp_path, one)
    assert not (tmp_path / "pos").exists()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"\xff\xfe\x00garbage", "line 1"),
        (b"<!DOCTYPE html>\n<p>rate limited", "line 1"),
        (conllu("fine") + b"1\ttoo\tfew\n\n", "line 4"),
        (conllu("untagged", tag="_"), "without pos tags"),
    ],
)
def test_garbage_without_a_checksum_is_not_trusted(server, tmp_path, listed, body, complaint):
    one = dataset("ud/en_one", "one")
    listed(one)
    server.files["one"] = Served(body)
    with pytest.raises(ZgulError, match=f"{complaint}(.|\n)*not what the catalogue expects"):
        get(server, tmp_path, one)
    assert not (tmp_path / "pos/en/train.tsv").exists()
    server.files["one"] = Served(conllu("one"))
    (fetched,) = get(server, tmp_path, one)
    assert fetched.trust == "first fetch" and words(tmp_path) == [["one"]]


def test_a_run_that_stops_in_the_middle_goes_on_where_it_was(server, tmp_path, listed):
    one, two = dataset("ud/en_one", "one"), dataset("ud/en_two", "two")
    listed(one, two)
    server.files["one"] = Served(conllu("one"))
    with pytest.raises(ZgulError, match="404"):
        get(server, tmp_path, one, two)
    server.requests.clear()
    server.files["two"] = Served(conllu("two"))
    get(server, tmp_path, one, two)
    assert [path for path, _ in server.requests] == ["two"]
    assert words(tmp_path) == [["one"], ["two"]]


def test_two_runs_at_once_take_turns(server, tmp_path, listed):
    sets = [dataset(f"ud/en_{n}", f"f{n}") for n in range(4)]
    listed(*sets)
    server.files |= {f"f{n}": Served(conllu(f"w{n}", *["x"] * 2000), breaks=[100]) for n in range(4)}
    threads = [threading.Thread(target=get, args=(server, tmp_path, one)) for one in sets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sentence[0] for sentence in words(tmp_path)] == ["w0", "w1", "w2", "w3"]


def test_files_of_others_are_left_alone(server, tmp_path, listed):
    one = dataset("ud/en_one", "one")
    listed(one)
    server.files["one"] = Served(conllu("one"))
    mine = tmp_path / "pos/en/train.tsv.xz"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    with pytest.raises(ZgulError, match=r"train\.tsv\.xz is there and was not written by zgul"):
        get(server, tmp_path, one)
    assert server.requests == []


def archive(language: str, **splits: bytes) -> bytes:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as tar:
        for name, body in splits.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as zipped:
        zipped.writestr(f"{language}.tar.gz", inner.getvalue())
    return outer.getvalue()


def wikiann() -> Dataset:
    (listed,) = catalogue.find("wikiann/bh")
    return listed


ROWS = "bh:पटना\tB-LOC\nbh:में\tO\n\n".encode()


def test_wikiann_comes_out_of_its_archive(server, tmp_path, listed):
    bhojpuri = wikiann()
    listed(bhojpuri)
    server.files[bhojpuri.files[0].path] = Served(archive("bh", train=ROWS, dev=ROWS, test=ROWS))
    assert len(get(server, tmp_path, bhojpuri)) == 1  # one archive for three splits
    for split in ("few", "dev", "test"):
        (sentence,) = load(tmp_path, "ner", "bho", split)
        assert (sentence.words, sentence.tags) == (["पटना", "में"], ["B-LOC", "O"])


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (archive("as", train=ROWS), "no bh.tar.gz"),
        (archive("bh", train=ROWS), "no bh.tar.gz/dev"),
        (b"PK garbage", "not the archive"),
    ],
)
def test_an_archive_that_is_not_wikiann(server, tmp_path, listed, body, complaint):
    bhojpuri = wikiann()
    listed(bhojpuri)
    server.files[bhojpuri.files[0].path] = Served(body)
    with pytest.raises(ZgulError, match=complaint):
        get(server, tmp_path, bhojpuri)


def test_masakhaner_form(server, tmp_path, listed):
    (hausa,) = catalogue.find("masakhaner/hau")
    listed(hausa)
    server.files |= {file.path: Served(b"Kano B-LOC\nce O\n\n") for file in hausa.files}
    get(server, tmp_path, hausa)
    assert words(tmp_path, "test", "ha", "ner") == [["Kano", "ce"]]


def test_a_real_treebank_end_to_end(server, tmp_path, shared_data):
    from zgul.files import open_binary

    (faroese,) = catalogue.find("ud/fo_oft")
    faroese = catalogue.at_release(faroese, "r2.17")
    with open_binary(shared_data / "conllu/fo_oft-ud-test.conllu.xz") as stream:
        body = stream.read()
    server.files[faroese.files[0].path] = Served(body, breaks=[300_000])
    (fetched,) = get(server, tmp_path, faroese)
    assert fetched.trust == "catalogue"
    paper = [word for sentence in load(shared_data, "pos", "fo", "test") for word in sentence.words]
    assert [word for sentence in words(tmp_path, "test", "fo") for word in sentence] == paper


def test_what_needs_an_agreement_is_explained(tmp_path):
    with pytest.raises(ZgulError, match=r"cannot be fetched \(https://trec.*agreement with NIST"):
        fetch(catalogue.find("conll2003/en"), tmp_path)


def test_bad_arguments(tmp_path):
    faroese = catalogue.find("ud/fo_oft")
    with pytest.raises(ZgulError, match="http or https"):
        fetch(faroese, tmp_path, mirror="file:///etc")
    (tmp_path / "file").write_text("")
    with pytest.raises(ZgulError, match="cannot be made"):
        fetch(faroese, tmp_path / "file")


def test_a_damaged_manifest(tmp_path):
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(ZgulError, match="damaged"):
        fetch(catalogue.find("ud/fo_oft"), tmp_path)
