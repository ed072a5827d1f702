"""The files of a release: built twice they are equal bit for bit, and the wheel tags without any network.

Builds take the time of the commit as theirs (SOURCE_DATE_EPOCH) and see only what git tracks, so a file that lies
around gets into no release. The wheel is unpacked into an empty environment that sees the dependencies of this one,
and tags there while every socket is refused.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

TAG = """
import socket, sys

def refuse(*arguments, **options):
    raise AssertionError("a socket was opened")

socket.socket.__init__ = refuse
socket.create_connection = socket.getaddrinfo = refuse
import zgul
assert "{place}" in zgul.__file__, zgul.__file__
tagged = zgul.load("fo", "pos").tag("Skipið fór úr Havn í morgun.")
print(" ".join(tagged.sentences[0].tags))
"""


def prove(root: Path, output: Path | None = None) -> dict[str, Any]:
    """Build twice, compare, and tag with the wheel. The files go to ``dist``."""
    commit = _git(root, "rev-parse", "HEAD").strip()
    epoch = _git(root, "log", "-1", "--format=%ct", "HEAD").strip()
    with tempfile.TemporaryDirectory(prefix="zgul-dist-") as place:
        builds = [build(root, Path(place) / str(number), epoch) for number in range(2)]
        sums = [{path.name: _sha256(path) for path in sorted(folder.iterdir())} for folder in builds]
        if sums[0] != sums[1]:
            raise SystemExit(f"Two builds differ: {sums[0]} and {sums[1]}")
        output = output or root / "dist"
        output.mkdir(exist_ok=True)
        for path in builds[0].iterdir():
            shutil.copy(path, output)
        (wheel,) = builds[0].glob("*.whl")
        tagged = tag_offline(wheel, Path(place) / "empty")
    return {
        "commit": commit,
        "epoch": epoch,
        "files": sums[0],
        "offline": f"the wheel tags with sockets blocked: {tagged}",
    }


def build(root: Path, folder: Path, epoch: str) -> Path:
    """Build wheel and sdist from what git tracks, with the build tools of this environment."""
    source, made = folder / "source", folder / "made"
    source.mkdir(parents=True)
    packed = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD"], cwd=root, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(source, filter="data")
    made.mkdir()
    environment = os.environ | {"SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": "0"}
    for kind in ("wheel", "sdist"):
        call = f"import setuptools.build_meta as backend, sys; backend.build_{kind}(sys.argv[1])"
        run = [sys.executable, "-c", call, str(made)]
        subprocess.run(run, cwd=source, check=True, env=environment, capture_output=True)
    for path in made.glob("*.tar.gz"):
        _settle(path, int(epoch))
    return made


def _settle(path: Path, epoch: int) -> None:
    """Write an sdist again with one time and no owner: setuptools puts the build's own into it."""
    with tarfile.open(path) as archive:
        members = [(member, archive.extractfile(member)) for member in archive.getmembers()]
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as again:
            for member, content in sorted(members, key=lambda pair: pair[0].name):
                member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
                member.mode, member.pax_headers = 0o755 if member.isdir() or member.mode & 0o100 else 0o644, {}
                again.addfile(member, content)
    with path.open("wb") as file, gzip.GzipFile("", "wb", mtime=epoch, fileobj=file) as packed:
        packed.write(plain.getvalue())


def tag_offline(wheel: Path, folder: Path) -> str:
    """Install the wheel, and nothing else, into a new environment and tag a sentence with sockets blocked."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(packages)]
    subprocess.run([*install, str(wheel)], check=True)
    # dependencies come from this environment, but zgul itself must not
    own = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(own) + "\n", encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "ZGUL_TAGGERS")}
    code = TAG.replace("{place}", str(folder))
    run = [str(python), "-c", code]
    done = subprocess.run(run, cwd=folder, env=environment | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"The installed wheel does not tag offline:\n{done.stderr}")
    return done.stdout.strip()


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
