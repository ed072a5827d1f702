"""``zgul data`` as a user calls it."""

import json
import re
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from command_line import zgul
from zgul.corpora import catalogue
from zgul.corpora.sentence import UPOS
from zgul.errors import ZgulError


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path):
    """A mirror with MasakhaNER's Luo, and its address."""
    for file in catalogue.find("masakhaner/luo")[0].files:
        path = tmp_path / "mirror" / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"Kisumu B-LOC\nen O\n\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=tmp_path / "mirror"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def no_checksums(monkeypatch):
    monkeypatch.setattr(catalogue, "CHECKSUMS", {})


def test_list_shows_every_dataset_within_100_columns():
    output = zgul("data", "list")
    for dataset in catalogue.DATASETS:
        assert dataset.name in output
    assert "adapterhub" in output and "uriel" in output
    assert max(map(len, output.splitlines())) <= 100


def test_list_narrows_down():
    output = zgul("data", "list", "--group", "Germanic", "--lang", "føroyskt")
    assert "ud/fo_oft" in output and "ud/got_proiel" not in output and "adapterhub" not in output
    assert "slavic" not in zgul("data", "list", "--group", "germanic")


def test_list_as_json():
    (entry,) = json.loads(zgul("data", "list", "--lang", "fo", "--json"))
    assert entry["name"] == "ud/fo_oft" and entry["licence"] == "CC BY-SA 4.0"
    (file,) = entry["files"]
    assert file["url"].startswith("https://raw.githubusercontent.com/UniversalDependencies/UD_Faroese-OFT/r2.5/")
    assert re.fullmatch("[0-9a-f]{64}", file["sha256"])


def test_list_with_nothing_to_show():
    with pytest.raises(ZgulError, match="No dataset of the catalogue matches"):
        zgul("data", "list", "--task", "pos", "--lang", "sw")


def test_fetch_lays_out_a_folder_that_stats_reads(mirror, tmp_path, no_checksums):
    data = tmp_path / "data"
    first = zgul("data", "fetch", "masakhaner/luo", "--output", data, "--mirror", mirror, "--allow-http")
    assert first.count("trusted on first fetch") == 3 and f"--data {data}" in first
    again = zgul(
        "data", "fetch", "masakhaner/luo", "--output", data, env={"ZGUL_MIRROR": mirror, "ZGUL_ALLOW_HTTP": "1"}
    )
    assert again.count("was there") == 3
    rows = json.loads(zgul("data", "stats", data, "--json"))["splits"]
    assert [(row["language"], row["split"], row["words"]) for row in rows] == [
        ("luo", "few", 2),
        ("luo", "dev", 2),
        ("luo", "test", 2),
    ]
    shown = zgul("data", "stats", data)
    assert "no sources" in shown and "no training data here for English (en), Amharic (am)" in shown


def test_fetch_goes_to_the_cache_folder_by_default(mirror, tmp_path, no_checksums):
    zgul(
        "data",
        "fetch",
        "masakhaner/luo",
        "--mirror",
        mirror,
        "--allow-http",
        env={"ZGUL_CACHE": str(tmp_path / "cache")},
    )
    assert (tmp_path / "cache/data/ner/luo/test.tsv").read_text() == "Kisumu\tB-LOC\nen\tO\n\n"


def test_fetch_refuses_what_the_catalogue_does_not_vouch_for(mirror, tmp_path):
    with pytest.raises(ZgulError, match="wrong checksum"):
        zgul("data", "fetch", "masakhaner/luo", "--output", tmp_path, "--mirror", mirror, "--allow-http")


def test_fetch_needs_to_know_what():
    with pytest.raises(ZgulError, match="Say what to fetch"):
        zgul("data", "fetch")
    with pytest.raises(ZgulError, match="ud/ datasets"):
        zgul("data", "fetch", "wikiann/as", "--release", "r2.17")


def test_fetching_a_group_names_what_must_be_got_by_hand(mirror, tmp_path, no_checksums, monkeypatch):
    monkeypatch.setattr(catalogue, "DATASETS", (*catalogue.find("masakhaner/luo"), *catalogue.find("conll2003/en")))
    output = zgul("data", "fetch", "--group", "african", "--output", tmp_path, "--mirror", mirror, "--allow-http")
    assert "Not fetched: conll2003/en" in output and output.count("masakhaner/luo") == 3


def test_fetch_refuses_a_mirror_without_encryption(mirror, tmp_path):
    with pytest.raises(ZgulError, match=r"not encrypted.*ZGUL_ALLOW_HTTP=1"):
        zgul("data", "fetch", "masakhaner/luo", "--output", tmp_path, "--mirror", mirror)


def test_an_error_is_one_line_and_no_traceback(tmp_path):
    bad = tmp_path / "pos/fo/test.tsv"
    bad.parent.mkdir(parents=True)
    bad.write_text("Føroyar\tPROPN\neru\n\n", "utf-8")
    command = [sys.executable, "-c", "from zgul.cli import main; main()", "data", "stats", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"zgul: {bad}, line 2: ")


def test_stats_fits_100_columns(tmp_path):
    for code in ("en", "is", "de", "fo", "my_own"):
        for split in ("train", "test"):
            path = tmp_path / "pos" / code / f"{split}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{code}\tNOUN\n\n", "utf-8")
    output = zgul("data", "stats", tmp_path)
    assert max(map(len, output.splitlines())) <= 100
    assert "Faroese" in output and "my_own" in output and "61.7" in output


def test_stats_names_the_few_tags_that_a_file_lacks(tmp_path):
    path = tmp_path / "pos" / "fo" / "test.tsv"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"x\t{tag}\n" for tag in UPOS if tag not in ("SYM", "ADJ")) + "\n", "utf-8")
    assert "15, no ADJ SYM" in zgul("data", "stats", tmp_path)


@pytest.mark.parametrize("command", ["list", "fetch", "stats"])
def test_help_has_examples(command):
    assert f"zgul data {command}" in zgul("data", command, "--help")
