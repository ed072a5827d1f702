"""The command itself, as a process: where it listens, what it says, and how it stops."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from running_service import Answer, Client
from zgul.cli import app
from zgul.serve import server
from zgul.serve.serve_config import ServeConfig

SENTENCE = "Hetta er ein roynd við nógvum orðum. "


@contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """``zgul serve`` on a free port."""
    command = [sys.executable, "-m", "zgul", "serve", "--port", "0", *options]
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr
        address = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stderr.readline())
        assert address
        yield process, Client(int(address[1]))
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_finishes_what_is_begun_when_it_is_stopped(stop: int) -> None:
    answers: list[Answer] = []
    with started() as (process, client):
        client.tag("Hetta er")
        asking = threading.Thread(target=lambda: answers.append(client.tag(SENTENCE * 150)))
        asking.start()
        while b"zgul_waiting_words 0.0" in client.get("/metrics").body:
            pass
        process.send_signal(stop)
        asking.join(60)
        _, log = process.communicate(timeout=30)
        assert process.returncode == 0
        assert [answer.status for answer in answers] == [200]
        assert len(answers[0].data["texts"][0]["sentences"]) == 150
        with pytest.raises(OSError):
            client.get("/healthz")
    assert "POST /v1/tag 200" in log and "Traceback" not in log and "roynd" not in log


@pytest.mark.slow
def test_it_does_not_wait_for_ever() -> None:
    with started("--grace", "1") as (process, client):
        client.tag("Hetta er")
        ended: list[str] = []

        def ask() -> None:
            try:
                ended.append(str(client.tag(SENTENCE * 1000).status))
            except (OSError, http.client.HTTPException) as error:
                ended.append(type(error).__name__)

        asking = threading.Thread(target=ask)
        asking.start()
        while b"zgul_waiting_words 0.0" in client.get("/metrics").body:
            pass
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 0
        asking.join(10)
        assert ended and ended != ["200"]


def test_a_port_that_is_taken_and_other_wrong_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", "--port", str(port), "--no-open"])
    assert f"Port {port} is taken" in str(result.exception) and f"--port {port + 1}" in str(result.exception)
    for host, problem in (("no such host", "no address"), ("203.0.113.7", "no address"), ("a..b", "no name")):
        result = CliRunner().invoke(app, ["serve", "--host", host, "--no-open"])
        assert problem in str(result.exception)


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ServeConfig] = []
    monkeypatch.setattr(server, "serve", seen.append)
    result = CliRunner().invoke(app, ["serve", "--max-words", "50"], env={"ZGUL_API_KEY": "secret"})
    assert result.exit_code == 0 and seen[0].api_key == "secret" and seen[0].max_words == 50
    CliRunner().invoke(app, ["serve", "--api-key", "other"], env={"ZGUL_API_KEY": "secret"})
    assert seen[1].api_key == "other" and seen[1].host == "127.0.0.1"


def test_without_the_extra_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['fastapi'] = None; sys.argv = ['zgul', 'serve']; from zgul.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "zgul: zgul serve needs more packages (fastapi): pip install 'zgul[serve]'\n"


@pytest.mark.parametrize(("host", "key", "said"), [("127.0.0.1", "", False), ("0.0.0.0", "", True), ("::1", "", False)])
def test_it_says_who_can_reach_it(
    host: str, key: str, said: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda *_, **__: None)
    monkeypatch.setattr(server.webbrowser, "open", opened.append)
    monkeypatch.setattr(server.threading, "Timer", lambda _, call, values: threading.Thread(target=call, args=values))
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    server.serve(ServeConfig(host=host, port=0, api_key=key))
    text = capsys.readouterr().err
    assert "the page is at http://" in text and ("other machines can reach it" in text) == said
    assert not opened
    monkeypatch.setenv("DISPLAY", ":0")
    server.serve(ServeConfig(host="127.0.0.1", port=0))
    assert len(opened) == 1 and opened[0].startswith("http://127.0.0.1:")
