"""Hub names against a local server that speaks the protocols of Hugging Face and of AdapterHub's index."""

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from zgul.adapters.adapterhub import fetch_adapter, read_adapter, write_adapter
from zgul.adapters.bank import LanguageAdapter
from zgul.errors import ZgulError

MBERT = "bert-base-multilingual-cased"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that has read enough closes the connection."""


class Hub:
    """Repositories, index files and archives, and a record of what was asked for."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.down = False
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.asked.append(self.path)
                status, headers, body = hub.answer(self.path)
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        path = path.split("?")[0].lstrip("/")
        if self.down:
            return 503, {}, b""
        if path in self.files:
            return 200, {}, self.files[path]
        parts = path.removeprefix("api/models/").split("/")
        repository, rest = "/".join(parts[:2]), parts[2:]
        files = self.repositories.get(repository)
        if files is None:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        rest = rest or ["revision", "main"]
        if rest[1] not in ("main", COMMIT):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        if rest[0] == "revision":
            siblings = [{"rfilename": name, "size": len(body)} for name, body in files.items()]
            return 200, {}, json.dumps({"id": repository, "sha": COMMIT, "siblings": siblings}).encode()
        if rest[0] == "tree":
            tree = [
                {"type": "file", "path": name, "size": len(body), "oid": hashlib.sha1(body).hexdigest()}
                for name, body in files.items()
            ]
            return 200, {}, json.dumps(tree).encode()
        body = files[rest[2]]
        return 200, {"ETag": f'"{hashlib.sha1(body).hexdigest()}"', "X-Repo-Commit": COMMIT}, body

    def add_entry(self, path: str, archive: bytes, **checksums: str) -> None:
        """An entry of the index whose one file is this archive."""
        name = f"archives/{path.replace('/', '-')}.zip"
        self.files[name] = archive
        file = {"url": f"{self.url}/{name}", **checksums}
        self.files[f"index/{path}"] = json.dumps({"default_version": "nd", "files": {"nd": file}}).encode()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    hub = Hub()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("ZGUL_ADAPTERHUB_URL", f"{hub.url}/index")
    monkeypatch.setenv("ZGUL_ALLOW_HTTP", "1")
    monkeypatch.setenv("ZGUL_CACHE", str(tmp_path / "cache"))
    yield hub
    hub.server.shutdown()
    hub.server.server_close()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """What a repository of a language adapter holds."""
    folder = write_adapter(LanguageAdapter.new("en", 8, 2, invertible=True), tmp_path / "made", safe=False)
    return {**{path.name: path.read_bytes() for path in folder.iterdir()}, "README.md": b"# a card"}


def zipped(files: dict[str, bytes], folder: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, body in files.items():
            archive.writestr(folder + name, body)
    return buffer.getvalue()


def sha(algorithm: str, body: bytes) -> str:
    return hashlib.new(algorithm, body).hexdigest()


def index(hub: Hub, **tasks: dict[str, object]) -> None:
    hub.files[f"index/index/{MBERT}.json"] = json.dumps(tasks).encode()


WIKI = {
    "wiki": {
        "d345095bcb01e325": {"versions": {"ukp": f"adapters/ukp/{MBERT}-en-wiki_pfeiffer.json"}},
        "default": f"adapters/ukp/{MBERT}-en-wiki_pfeiffer_relu.json",
        "e15331acc3f0a5c0": {"versions": {"ukp": f"adapters/ukp/{MBERT}-en-wiki_pfeiffer_relu.json"}},
        "f10efa747ae87c60": {"versions": {"other": "adapters/other/en-wiki.json"}},
    }
}
RELU = f"adapters/ukp/{MBERT}-en-wiki_pfeiffer_relu.json"


def test_a_hugging_face_repository(hub: Hub, files: dict[str, bytes], tmp_path: Path) -> None:
    name = f"AdapterHub/{MBERT}-en-wiki_pfeiffer"
    hub.repositories[name] = files
    adapter = read_adapter(name)
    assert (adapter.language, adapter.width, adapter.about["source"]) == ("en", 8, name)
    assert not any("README" in path for path in hub.asked)
    assert any((tmp_path / "cache").rglob("pytorch_adapter.bin"))


def test_a_repository_once_fetched_needs_no_server(hub: Hub, files: dict[str, bytes]) -> None:
    hub.repositories["org/en"] = files
    read_adapter("org/en")
    hub.server.shutdown()
    hub.server.server_close()
    assert read_adapter("org/en", "eng").language == "eng"


def test_a_repository_that_does_not_exist(hub: Hub) -> None:
    with pytest.raises(ZgulError, match=r"en/wiki: no such folder, and no public repository.*add.*en/wiki@ukp"):
        read_adapter("en/wiki")


def test_a_version_that_does_not_exist(hub: Hub, files: dict[str, bytes]) -> None:
    hub.repositories["org/en"] = files
    with pytest.raises(ZgulError, match="org/en has no version 'v9'"):
        read_adapter("org/en", version="v9")


def test_a_repository_of_something_else(hub: Hub) -> None:
    hub.repositories["org/model"] = {"adapter_config.json": b"{}", "model.safetensors": b""}
    with pytest.raises(ZgulError, match=r"contains no adapter\.safetensors and no pytorch_adapter\.bin"):
        read_adapter("org/model")


def test_no_server(hub: Hub) -> None:
    hub.server.shutdown()
    hub.server.server_close()
    with pytest.raises(ZgulError, match=r"org/en: Hugging Face gave no answer.*copy the adapter's folder"):
        read_adapter("org/en")
    with pytest.raises(ZgulError, match=r"index/bert.*no connection.*Check the connection"):
        read_adapter("en/wiki@ukp", encoder=MBERT)


def test_an_indexed_name_leads_to_the_copy_on_hugging_face(hub: Hub, files: dict[str, bytes]) -> None:
    index(hub, en=WIKI)
    hub.repositories[f"AdapterHub/{MBERT}-en-wiki_pfeiffer_relu"] = files
    for encoder in (MBERT, f"google-bert/{MBERT}"):
        assert read_adapter("en/wiki@ukp", encoder=encoder).width == 8
    assert sum("index/index" in path for path in hub.asked) == 1  # the index is kept


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
@pytest.mark.parametrize("folder", ["", "en/"])
def test_an_indexed_name_without_a_copy_leads_to_the_archive(
    hub: Hub, files: dict[str, bytes], algorithm: str, folder: str, tmp_path: Path
) -> None:
    index(hub, en=WIKI)
    archive = zipped(files, folder)
    hub.add_entry(RELU, archive, **{algorithm: sha(algorithm, archive).upper()})
    for _ in range(2):
        assert read_adapter("en/wiki@ukp", "english", encoder=MBERT).language == "english"
    assert sum("archives" in path for path in hub.asked) == 1
    left = [path.name for path in (tmp_path / "cache" / "adapterhub").iterdir()]
    assert sorted(left) == [".lock", "adapters", f"{Path(RELU).stem}-nd", "index"]


def test_a_wrong_checksum_leaves_nothing_behind(hub: Hub, files: dict[str, bytes], tmp_path: Path) -> None:
    archive = zipped(files)
    hub.add_entry(RELU, archive, sha1=sha("sha1", b"something else"))
    name = f"@ukp/{Path(RELU).stem}"
    with pytest.raises(ZgulError, match="wrong checksum"):
        read_adapter(name)
    assert not list((tmp_path / "cache").rglob("pytorch_adapter.bin"))
    hub.files.pop(f"index/{RELU}")
    (tmp_path / "cache" / "adapterhub" / RELU).unlink()
    hub.add_entry(RELU, archive, sha1=sha("sha1", archive))
    assert read_adapter(name).width == 8


def test_an_archive_that_is_no_zip_or_is_gone(hub: Hub, tmp_path: Path) -> None:
    hub.add_entry(RELU, b"<html>", sha1=sha("sha1", b"<html>"))
    name = f"@ukp/{Path(RELU).stem}"
    with pytest.raises(ZgulError, match="is not a zip file"):
        read_adapter(name)
    hub.files = {key: value for key, value in hub.files.items() if not key.startswith("archives")}
    with pytest.raises(ZgulError, match=r"zip: the server answered 404"):
        read_adapter(name)
    assert {path.name for path in (tmp_path / "cache" / "adapterhub").iterdir()} == {".lock", "adapters"}


def test_an_archive_never_writes_outside_its_folder(hub: Hub, files: dict[str, bytes], tmp_path: Path) -> None:
    archive = zipped({**files, "../../evil.txt": b"", "../adapter_config.json": files["adapter_config.json"]})
    hub.add_entry(RELU, archive, sha1=sha("sha1", archive))
    assert read_adapter(f"@ukp/{Path(RELU).stem}").width == 8
    assert not list(tmp_path.rglob("evil.txt"))


def test_versions_of_an_entry(hub: Hub, files: dict[str, bytes]) -> None:
    archive = zipped(files)
    hub.add_entry(RELU, archive, sha1=sha("sha1", archive))
    with pytest.raises(ZgulError, match=r"has no version 'wd'\. It has: nd"):
        read_adapter(f"@ukp/{Path(RELU).stem}", version="wd")
    assert read_adapter(f"@ukp/{Path(RELU).stem}", version="nd").width == 8


def test_an_author_other_than_the_default_one(hub: Hub, files: dict[str, bytes]) -> None:
    index(hub, en=WIKI)
    hub.repositories["AdapterHub/en-wiki"] = files
    assert read_adapter("en/wiki@other", encoder=MBERT).width == 8


@pytest.mark.parametrize(
    ("name", "encoder", "message"),
    [
        ("en/wiki@ukp", None, "Name the encoder, for example encoder='bert-base-multilingual-cased'"),
        ("fo/wiki@ukp", MBERT, "no fo/wiki for bert-base-multilingual-cased. wiki exists for: de, en"),
        ("en/news@ukp", MBERT, "no en/news for bert-base-multilingual-cased.$"),
        ("en/wiki@me", MBERT, "en/wiki is by other, ukp, not by me"),
        ("en/wiki@ukp", "gpt2", "nothing for the encoder 'gpt2'"),
        ("@ukp/nothing", None, r"adapters/ukp/nothing\.json: the server answered 404"),
        ("./adapters/en", None, "no such folder, and not a name on a hub either"),
        ("english", None, "no such folder, and not a name on a hub either"),
        ("../../x@y", None, "not a name on a hub either"),
    ],
)
def test_names_that_lead_nowhere(hub: Hub, name: str, encoder: str | None, message: str) -> None:
    index(hub, en=WIKI, de=WIKI)
    with pytest.raises(ZgulError, match=message):
        fetch_adapter(name, encoder=encoder)


@pytest.mark.parametrize(("body", "message"), [(b"<html>", "not valid JSON"), (b"[]", "must contain a JSON object")])
def test_a_broken_index_is_not_kept(hub: Hub, files: dict[str, bytes], body: bytes, message: str) -> None:
    hub.files[f"index/index/{MBERT}.json"] = body
    with pytest.raises(ZgulError, match=message):
        fetch_adapter("en/wiki@ukp", encoder=MBERT)
    index(hub, en=WIKI)
    hub.repositories[f"AdapterHub/{MBERT}-en-wiki_pfeiffer_relu"] = files
    assert fetch_adapter("en/wiki@ukp", encoder=MBERT).is_dir()


def test_a_server_that_fails(hub: Hub) -> None:
    hub.down = True
    with pytest.raises(ZgulError, match="answered 503"):
        fetch_adapter("en/wiki@ukp", encoder=MBERT)


def test_an_entry_that_points_at_a_local_file_is_refused(hub: Hub, tmp_path: Path) -> None:
    entry = {"default_version": "1", "files": {"1": {"url": tmp_path.as_uri(), "sha1": "0"}}}
    hub.files["index/adapters/ukp/x.json"] = json.dumps(entry).encode()
    with pytest.raises(ZgulError, match="not a web address"):
        fetch_adapter("@ukp/x")


# Names that become paths


def outside(folder: Path) -> list[str]:
    """The files that are not where fetched adapters belong."""
    belong = ("made/", "cache/adapterhub/", "cache/huggingface/")
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if not path.startswith(belong))


@pytest.mark.parametrize("encoder", ["../../x", "..", "a/b", "/etc/x", "x\\..\\y", "x\0", "", "google-bert/../x", "~"])
def test_an_encoder_cannot_lead_out_of_the_cache(hub: Hub, tmp_path: Path, encoder: str) -> None:
    hub.files |= {
        f"index/index/{encoder}.json": json.dumps({"en": WIKI}).encode(),
        "index/x.json": b"{}",
        "x.json": b"{}",
    }
    with pytest.raises(ZgulError, match="nothing for the encoder"):
        fetch_adapter("en/wiki@ukp", encoder=encoder)
    assert hub.asked == [] and outside(tmp_path) == []


@pytest.mark.parametrize("version", ["../../x", "..", "/x", "a//b", "a/../b", "x\0", "\n", ".", "x\\y"])
def test_a_version_cannot_lead_out_of_the_cache(
    hub: Hub, files: dict[str, bytes], tmp_path: Path, version: str
) -> None:
    hub.repositories["org/en"] = files
    for name in ("org/en", f"@ukp/{Path(RELU).stem}"):
        with pytest.raises(ZgulError, match="cannot be the version"):
            fetch_adapter(name, version=version)
    assert hub.asked == [] and outside(tmp_path) == []


def test_a_version_in_the_index_cannot_lead_out_of_the_cache(hub: Hub, files: dict[str, bytes], tmp_path: Path) -> None:
    hub.add_entry(RELU, zipped(files))
    entry = json.loads(hub.files[f"index/{RELU}"])
    entry["default_version"] = "/../../../x"
    entry["files"] = {"/../../../x": entry["files"]["nd"] | {"sha1": sha("sha1", zipped(files))}}
    hub.files[f"index/{RELU}"] = json.dumps(entry).encode()
    with pytest.raises(ZgulError, match=r"has no version '/\.\./\.\./\.\./x'"):
        fetch_adapter(f"@ukp/{Path(RELU).stem}")
    assert outside(tmp_path) == []


@pytest.mark.parametrize(
    "path", ["../../x.json", "adapters/../x.json", "adapters/ukp/../../x.json", "", 7, None, ["a"]]
)
def test_a_path_in_the_index_cannot_lead_out_of_the_cache(hub: Hub, tmp_path: Path, path: object) -> None:
    index(hub, en={"wiki": {"default": path}})
    with pytest.raises(ZgulError, match="AdapterHub has no en/wiki"):
        fetch_adapter("en/wiki@ukp", encoder=MBERT)
    assert outside(tmp_path) == []


# Damaged and hostile answers


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ([], "must contain a JSON object"),
        ({"en": []}, "en must be an object"),
        ({"en": {"wiki": "x"}}, "wiki must be an object"),
        ({"en": {"wiki": {"abc": 7}}}, "abc must be an object"),
        ({"en": {"wiki": {"abc": {"versions": [1]}}}}, "versions must be an object"),
        ({"en": {"wiki": {"abc": {}}}}, "AdapterHub has no en/wiki"),
    ],
)
def test_a_damaged_index(hub: Hub, damage: object, message: str) -> None:
    hub.files[f"index/index/{MBERT}.json"] = json.dumps(damage).encode()
    with pytest.raises(ZgulError, match=message):
        fetch_adapter("en/wiki@ukp", encoder=MBERT)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "has no version 'None'"),
        ({"default_version": "1", "files": []}, "files must be an object"),
        ({"default_version": "1", "files": {"1": "x"}}, "1 must be an object"),
        ({"default_version": "1", "files": {"1": {"sha1": "0" * 40}}}, "None is not a web address"),
        ({"default_version": "1", "files": {"1": {"url": "https://x/y.zip"}}}, "neither a SHA-256 nor a SHA-1"),
    ],
)
def test_a_damaged_entry(hub: Hub, entry: object, message: str) -> None:
    hub.files["index/adapters/ukp/x.json"] = json.dumps(entry).encode()
    with pytest.raises(ZgulError, match=message):
        fetch_adapter("@ukp/x")


def test_an_index_that_is_too_large(hub: Hub) -> None:
    hub.files[f"index/index/{MBERT}.json"] = b"{" + b" " * 2_000_000 + b"}"
    with pytest.raises(ZgulError, match=r"larger than the limit of 1,000,000 bytes"):
        fetch_adapter("en/wiki@ukp", encoder=MBERT)


def test_an_archive_that_unpacks_to_too_much(hub: Hub, files: dict[str, bytes], tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pytorch_adapter.bin", bytes(50_000_000))
    hub.add_entry(RELU, buffer.getvalue(), sha1=sha("sha1", buffer.getvalue()))
    with pytest.raises(ZgulError, match=r"unpacks to 50,000,000 bytes"):
        fetch_adapter(f"@ukp/{Path(RELU).stem}")
    assert not list((tmp_path / "cache").rglob("*.bin"))


def test_an_archive_that_lies_about_its_size(hub: Hub, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pytorch_adapter.bin", bytes(50_000_000))
    content = buffer.getvalue().replace((50_000_000).to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    hub.add_entry(RELU, content, sha1=sha("sha1", content))
    with pytest.raises(ZgulError, match=r"not a zip file that can be read"):
        fetch_adapter(f"@ukp/{Path(RELU).stem}")
    assert not list((tmp_path / "cache").rglob("*.bin"))


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_whose_contents_are_damaged(hub: Hub, tmp_path: Path, packing: int) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        archive.writestr("pytorch_adapter.bin", bytes(range(256)) * 100)
    content = bytearray(buffer.getvalue())
    start = 30 + len("pytorch_adapter.bin")
    content[start : start + 40] = b"\xff" * 40
    hub.add_entry(RELU, bytes(content), sha1=sha("sha1", bytes(content)))
    with pytest.raises(ZgulError, match=r"not a zip file that can be read"):
        fetch_adapter(f"@ukp/{Path(RELU).stem}")
    assert not list((tmp_path / "cache").rglob("*.bin"))


def test_members_of_an_archive_stay_in_the_cache(hub: Hub, files: dict[str, bytes], tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"../../../{name}", content)
        link = zipfile.ZipInfo("/pytorch_adapter.bin/../x")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    hub.add_entry(RELU, buffer.getvalue(), sha1=sha("sha1", buffer.getvalue()))
    before = set(tmp_path.rglob("*"))
    folder = fetch_adapter(f"@ukp/{Path(RELU).stem}")
    assert {path.name for path in folder.iterdir()} == set(files) - {"README.md"}
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert {path for path in tmp_path.rglob("*") if tmp_path / "cache" not in (path, *path.parents)} == before


def test_a_repository_with_a_file_that_is_too_large(
    hub: Hub, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("zgul.adapters.adapterhub.MAX_BYTES", 1000)
    hub.repositories["org/en"] = files
    with pytest.raises(ZgulError, match=r"pytorch_adapter\.bin is larger than 1,000 bytes"):
        fetch_adapter("org/en")
    assert not list((tmp_path / "cache").rglob("*.bin"))


def test_http_needs_permission(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZGUL_ALLOW_HTTP")
    index(hub, en=WIKI)
    with pytest.raises(ZgulError, match="not encrypted"):
        fetch_adapter("en/wiki@ukp", encoder=MBERT)
    assert hub.asked == []


def test_the_folder_of_a_run_that_was_killed_is_replaced(hub: Hub, files: dict[str, bytes], tmp_path: Path) -> None:
    archive = zipped(files)
    hub.add_entry(RELU, archive, sha1=sha("sha1", archive))
    half = tmp_path / "cache" / "adapterhub" / f".{Path(RELU).stem}-nd"
    half.mkdir(parents=True)
    (half / "pytorch_adapter.bin").write_bytes(b"half")
    assert read_adapter(f"@ukp/{Path(RELU).stem}").width == 8
    assert not half.exists()


def test_threads_that_fetch_the_same_adapter(hub: Hub, files: dict[str, bytes]) -> None:
    index(hub, en=WIKI)
    archive = zipped(files)
    hub.add_entry(RELU, archive, sha1=sha("sha1", archive))
    widths: list[int] = []
    threads = [
        threading.Thread(target=lambda: widths.append(read_adapter("en/wiki@ukp", encoder=MBERT).width))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert widths == [8] * 6
