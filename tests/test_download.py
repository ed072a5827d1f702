"""Downloading one file, from a server on this machine that misbehaves on request."""

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from web_server import Served, Server, running_server
from zgul.download import ALLOW_HTTP, ChecksumError, DownloadOptions, NotFoundError, download, file_digest
from zgul.errors import ZgulError
from zgul.progress import Status

QUICK = DownloadOptions(timeout=2, attempts=3, backoff=0.001, allow_http=True)
BODY = bytes(range(256)) * 1000  # 256 kB
DIGEST = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_whole_and_alone(server, tmp_path):
    server.files["x"] = Served(BODY)
    reports: list[Status] = []
    download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK, report=reports.append)
    assert (tmp_path / "x").read_bytes() == BODY
    assert reports[-1] == Status("x (kB)", 256, 256)
    assert names(tmp_path) == ["x"]
    assert file_digest(tmp_path / "x") == DIGEST


@pytest.mark.parametrize("validator", [{}, {"etag": None, "modified": "Wed, 21 Oct 2015 07:28:00 GMT"}])
def test_what_breaks_off_is_continued(server, tmp_path, validator):
    server.files["x"] = Served(BODY, breaks=[1000, 100_000], **validator)
    download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert (tmp_path / "x").read_bytes() == BODY
    assert [r for _, r in server.requests] == [None, "bytes=1000-", "bytes=101000-"]


@pytest.mark.parametrize("trouble", [{"ranges": False}, {"etag": None}, {"etag": 'W/"weak"'}])
def test_what_cannot_be_continued_is_begun_again(server, tmp_path, trouble):
    server.files["x"] = Served(BODY, breaks=[1000], **trouble)
    download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_later_run_continues_an_earlier_one(server, tmp_path):
    server.files["x"] = Served(BODY, breaks=[1000, 0, 0])
    with pytest.raises(ZgulError, match=r"1,000 of 256,000 bytes.*run the same command again"):
        download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert not (tmp_path / "x").exists()
    server.requests.clear()
    download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert server.requests == [("x", "bytes=1000-")]
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_file_that_changed_in_between_is_not_patched_together(server, tmp_path):
    server.files["x"] = Served(b"a" * 5000, breaks=[1000, 0, 0])
    with pytest.raises(ZgulError):
        download(f"{server.url}/x", tmp_path / "x", options=QUICK)
    server.files["x"] = Served(b"b" * 5000, etag='"v2"')
    download(f"{server.url}/x", tmp_path / "x", options=QUICK)
    assert (tmp_path / "x").read_bytes() == b"b" * 5000


def test_a_file_that_shrank_in_between_is_begun_again(server, tmp_path):
    server.files["x"] = Served(b"a" * 5000, breaks=[4000, 0, 0])
    with pytest.raises(ZgulError):
        download(f"{server.url}/x", tmp_path / "x", options=QUICK)
    server.files["x"] = Served(b"a" * 3000)  # same ETag: only the 416 tells
    download(f"{server.url}/x", tmp_path / "x", options=QUICK)
    assert (tmp_path / "x").read_bytes() == b"a" * 3000


@pytest.mark.parametrize("lie", [{"shift": 7}, {"understates": 7}])
def test_a_server_that_continues_with_something_else_is_not_believed(server, tmp_path, lie):
    server.files["x"] = Served(BODY, breaks=[1000], **lie)
    download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_wrongly_continued_file_is_fetched_once_more(server, tmp_path):
    server.files["x"] = Served(b"z" * len(BODY), breaks=[1000, 0, 0])
    with pytest.raises(ZgulError):
        download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    server.files["x"] = Served(BODY)  # other content under the same ETag
    download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert (tmp_path / "x").read_bytes() == BODY


def test_a_length_that_claims_too_much(server, tmp_path):
    server.files["x"] = Served(BODY, claims=len(BODY) + 10)
    with pytest.raises(ZgulError, match="Gave up after"):
        download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert not (tmp_path / "x").exists()


def test_a_length_that_claims_too_little(server, tmp_path):
    server.files["x"] = Served(BODY, claims=len(BODY) - 10)
    with pytest.raises(ZgulError, match="wrong checksum"):
        download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert names(tmp_path) == []


def test_no_length_at_all(server, tmp_path):
    server.files["x"] = Served(BODY, silent_length=True)
    download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert (tmp_path / "x").read_bytes() == BODY


def test_garbage_is_dropped(server, tmp_path):
    server.files["x"] = Served(b"\x00garbage" * 99)
    with pytest.raises(ZgulError, match=f"wrong checksum. Expected {DIGEST}"):
        download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert names(tmp_path) == []


def test_a_web_page_is_not_a_file(server, tmp_path):
    server.files["x"] = Served(b"<html>please log in</html>", kind="text/html; charset=utf-8")
    with pytest.raises(ZgulError, match="a web page or a packed file instead"):
        download(f"{server.url}/x", tmp_path / "x", options=QUICK)
    assert names(tmp_path) == []


def test_a_coding_that_was_not_asked_for(server, tmp_path):
    server.files["x"] = Served(gzip.compress(BODY), coding="gzip")
    with pytest.raises(ZgulError, match=r"a web page or a packed file instead .*gzip"):
        download(f"{server.url}/x", tmp_path / "x", options=QUICK)


def test_a_missing_file_is_asked_for_once(server, tmp_path):
    with pytest.raises(NotFoundError, match=r"404 Not Found. Check the address"):
        download(f"{server.url}/x", tmp_path / "x", options=QUICK)
    assert len(server.requests) == 1


def test_a_server_in_trouble_is_asked_again(server, tmp_path):
    server.files["x"] = Served(BODY, statuses=[500, 503])
    download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)
    assert len(server.requests) == 3


def test_a_server_that_stays_in_trouble(server, tmp_path):
    server.files["x"] = Served(BODY, statuses=[500] * 9)
    with pytest.raises(ZgulError, match=r"500 Internal Server Error.*after 3 attempts"):
        download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=QUICK)


def test_nobody_there(server, tmp_path):
    url = server.url
    server.server_close()
    with pytest.raises(ZgulError, match="no connection"):
        download(f"{url}/x", tmp_path / "x", options=QUICK)


def test_a_server_that_falls_silent(server, tmp_path):
    server.files["x"] = Served(BODY, stalls=0.4)
    impatient = DownloadOptions(timeout=0.1, attempts=2, backoff=0.001, allow_http=True)
    with pytest.raises(ZgulError, match="timed out"):
        download(f"{server.url}/x", tmp_path / "x", checksum=DIGEST, options=impatient)


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
        download(f"{server.url}/x", target, options=QUICK)  # without a checksum to save it
    except ZgulError as error:
        assert "Gave up" in str(error) and not target.exists()
    else:
        assert target.read_bytes() == BODY


@pytest.mark.parametrize("silent", [False, True])
def test_the_size_limit(server, tmp_path, silent):
    server.files["x"] = Served(BODY, silent_length=silent)
    with pytest.raises(ZgulError, match="limit of 1,000 bytes"):
        download(f"{server.url}/x", tmp_path / "x", max_bytes=1000, options=QUICK)
    assert "x" not in names(tmp_path)


def test_a_limit_that_the_caller_sets_replaces_that_of_the_file(server, tmp_path):
    server.files["x"] = Served(BODY)
    larger = DownloadOptions(allow_http=True, max_size=1)
    download(f"{server.url}/x", tmp_path / "x", max_bytes=1000, options=larger)
    assert (tmp_path / "x").read_bytes() == BODY


def test_sha1_and_capital_letters(server, tmp_path):
    server.files["x"] = Served(BODY)
    download(f"{server.url}/x", tmp_path / "x", checksum=hashlib.sha1(BODY).hexdigest().upper(), options=QUICK)
    with pytest.raises(ChecksumError):
        download(f"{server.url}/x", tmp_path / "y", checksum="0" * 40, options=QUICK)
    with pytest.raises(ZgulError, match="neither a SHA-256 nor a SHA-1"):
        download(f"{server.url}/x", tmp_path / "y", checksum="None", options=QUICK)
    assert names(tmp_path) == ["x"]


# Addresses


def test_http_needs_permission(server, tmp_path, monkeypatch):
    server.files["x"] = Served(BODY)
    monkeypatch.delenv(ALLOW_HTTP, raising=False)
    with pytest.raises(ZgulError, match=r"not encrypted.*ZGUL_ALLOW_HTTP=1"):
        download(f"{server.url}/x", tmp_path / "x")
    assert server.requests == [] and names(tmp_path) == []
    monkeypatch.setenv(ALLOW_HTTP, "1")
    download(f"{server.url}/x", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == BODY


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "file:///etc/passwd", "/etc/passwd", "x"])
def test_only_web_addresses(tmp_path, url):
    with pytest.raises(ZgulError, match="must begin with https"):
        download(url, tmp_path / "x", options=QUICK)


@pytest.mark.parametrize("url", ["https://localhost:port/x", "https://a b/x", "https://[::1/x", f"https://{'a' * 99}/"])
def test_addresses_that_are_not_valid(tmp_path, url):
    with pytest.raises(ZgulError, match="not a valid address"):
        download(url, tmp_path / "x", options=QUICK)


def test_redirects_lead_to_web_addresses_only(server, tmp_path):
    server.files |= {"x": Served(BODY), "there": Served(b"", redirect=f"{server.url}/x")}
    server.files["away"] = Served(b"", redirect="ftp://127.0.0.1/x")
    download(f"{server.url}/there", tmp_path / "x", options=QUICK)
    assert (tmp_path / "x").read_bytes() == BODY
    with pytest.raises(ZgulError, match=r"ftp://127\.0\.0\.1/x is not a web address"):
        download(f"{server.url}/away", tmp_path / "y", options=QUICK)


def test_a_target_that_cannot_be_written(server, tmp_path):
    server.files["x"] = Served(BODY)
    (tmp_path / "file").write_text("")
    with pytest.raises(ZgulError, match=r"file/x cannot be written \(.*choose another folder"):
        download(f"{server.url}/x", tmp_path / "file" / "x", options=QUICK)


def test_a_download_prints_nothing(server, tmp_path, capfd):
    server.files["x"] = Served(BODY)
    download(f"{server.url}/x", tmp_path / "x", options=QUICK)
    assert capfd.readouterr() == ("", "")
