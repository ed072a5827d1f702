"""Fetching datasets, from a server on this machine."""

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator

import pytest

from web_server import Served, Server, running_server
from zgul.corpora import DataFolder, catalogue
from zgul.corpora.catalogue import MANIFEST, Dataset, FetchedFile, File, fetch_datasets
from zgul.download import DownloadOptions
from zgul.errors import ZgulError
from zgul.files import open_binary

QUICK = DownloadOptions(timeout=2, attempts=3, backoff=0.001, allow_http=True)


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


def conllu(*words: str, tag: str = "NOUN") -> bytes:
    rows = [f"{i}\t{w}\t_\t{tag}\t_\t_\t0\troot\t_\t_\n" for i, w in enumerate(words, start=1)]
    return f"# text = {' '.join(words)}\n{''.join(rows)}\n".encode()


def dataset(name: str, *paths: str, split: str = "train", language: str = "en", **more: object) -> Dataset:
    fields = {
        "task": "pos",
        "role": "source",
        "groups": ("germanic",),
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
        monkeypatch.setattr(catalogue, "CHECKSUMS", checksums or {})

    return put


def get(server: Server, folder, *datasets: Dataset, release: str | None = None) -> list[FetchedFile]:
    names = [dataset.name for dataset in datasets]
    return fetch_datasets(names, data_dir=folder, release=release, mirror=server.url, options=QUICK).files


def words(folder, split="train", language="en", task="pos") -> list[list[str]]:
    return [sentence.words for sentence in DataFolder(folder).sentences(task, language, split)]


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
    with pytest.raises(ZgulError, match=r"differs from the first fetch.*fetched\.json"):
        get(server, tmp_path, one)
    assert words(tmp_path) == [["one"]]


def test_a_checksum_of_the_catalogue_is_binding(server, tmp_path, listed):
    one = dataset("ud/en_one", "one")
    listed(one, checksums={"one": "0" * 64})
    server.files["one"] = Served(conllu("one"))
    with pytest.raises(ZgulError, match=r"wrong checksum.*Try another host with --mirror"):
        get(server, tmp_path, one)
    assert not (tmp_path / "pos").exists()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"\xff\xfe\x00garbage", "line 1"),
        (b"<!DOCTYPE html>\n<p>rate limited", "line 1"),
        (conllu("fine") + b"1\ttoo\tfew\n\n", "line 4"),
        (conllu("untagged", tag="_"), "no POS tags"),
    ],
)
def test_garbage_without_a_checksum_is_not_trusted(server, tmp_path, listed, body, complaint):
    one = dataset("ud/en_one", "one")
    listed(one)
    server.files["one"] = Served(body)
    with pytest.raises(ZgulError, match=f"{complaint}.*not what the catalogue expects"):
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
    with pytest.raises(ZgulError, match=r"train\.tsv\.xz was not written by zgul"):
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
        (sentence,) = DataFolder(tmp_path).sentences("ner", "bho", split)
        assert (sentence.words, sentence.tags) == (["पटना", "में"], ["B-LOC", "O"])


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (archive("as", train=ROWS), "no bh.tar.gz"),
        (archive("bh", train=ROWS), "no bh.tar.gz/dev"),
        (b"PK garbage", "cannot be read as WikiAnn's archive"),
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
    (faroese,) = catalogue.find("ud/fo_oft")
    with open_binary(shared_data / "conllu/fo_oft-ud-test.conllu.xz") as stream:
        body = stream.read()
    path = catalogue.at_release(faroese, "r2.17").files[0].path
    server.files[path] = Served(body, breaks=[300_000])
    (fetched,) = get(server, tmp_path, faroese, release="2.17")
    assert fetched.trust == "catalogue"
    paper = [word for sentence in DataFolder(shared_data).sentences("pos", "fo", "test") for word in sentence.words]
    assert [word for sentence in words(tmp_path, "test", "fo") for word in sentence] == paper


def test_what_needs_an_agreement_is_explained(tmp_path):
    with pytest.raises(ZgulError, match=r"cannot be fetched \(https://trec.*agreement with NIST"):
        fetch_datasets(["conll2003/en"], data_dir=tmp_path)


def test_a_group_is_fetched_and_says_what_must_be_got_by_hand(server, tmp_path, listed):
    one, two = dataset("ud/en_one", "one"), dataset("ud/de_two", groups=("germanic",), language="de", note="ask them")
    listed(one, two, dataset("ud/ru_three", "three", groups=("slavic",), language="ru"))
    server.files["one"] = Served(conllu("one"))
    result = fetch_datasets(group="germanic", data_dir=tmp_path, mirror=server.url, options=QUICK)
    assert result.folder == tmp_path and result.by_hand == [two]
    assert [(file.dataset, file.path) for file in result.files] == [("ud/en_one", tmp_path / "raw/one")]


def test_bad_arguments(tmp_path):
    with pytest.raises(ZgulError, match="must begin with https"):
        fetch_datasets(["ud/fo_oft"], data_dir=tmp_path, mirror="file:///etc")
    with pytest.raises(ZgulError, match="not encrypted"):
        fetch_datasets(["ud/fo_oft"], data_dir=tmp_path, mirror="http://127.0.0.1:9")
    with pytest.raises(ZgulError, match="Say what to fetch"):
        fetch_datasets(data_dir=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ZgulError, match=r"file/raw cannot be written .*Choose another folder"):
        fetch_datasets(["ud/fo_oft"], data_dir=tmp_path / "file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("{}", "damaged"),
        ('{"releases": [], "checksums": {}, "laid_out": []}', "damaged"),
        ('{"releases": {"ud/fo_oft": "../../../../x"}, "checksums": {}, "laid_out": []}', "not a UD release"),
    ],
)
def test_a_damaged_manifest(tmp_path, text, message):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(ZgulError, match=message):
        fetch_datasets(["ud/is_icepahc"], data_dir=tmp_path, mirror="https://127.0.0.1:9")


@pytest.mark.parametrize("release", ["../../../../../x", "r2.5/../../..", "2.5\0", "r"])
def test_a_release_cannot_lead_out_of_the_folder(server, tmp_path, release):
    (faroese,) = catalogue.find("ud/fo_oft")
    with pytest.raises(ZgulError, match="not a UD release"):
        get(server, tmp_path, faroese, release=release)
    assert server.requests == []


def test_a_member_that_is_too_large_is_not_read(server, tmp_path, listed, monkeypatch):
    bhojpuri = wikiann()
    listed(bhojpuri)
    monkeypatch.setattr("zgul.corpora.catalogue.MAX_MEMBER", 10)
    server.files[bhojpuri.files[0].path] = Served(archive("bh", train=ROWS, dev=ROWS, test=ROWS))
    with pytest.raises(ZgulError, match="is larger than 10 bytes"):
        get(server, tmp_path, bhojpuri)


def test_a_dataset_has_its_own_size_limit(server, tmp_path, listed):
    small = dataset("ud/en_small", files=(File("train", "one", max_bytes=10),))
    listed(small)
    server.files["one"] = Served(conllu("one"))
    with pytest.raises(ZgulError, match="limit of 10 bytes"):
        get(server, tmp_path, small)
    larger = DownloadOptions(allow_http=True, max_size=1)
    fetch_datasets(["ud/en_small"], data_dir=tmp_path, mirror=server.url, options=larger)
    assert words(tmp_path) == [["one"]]
