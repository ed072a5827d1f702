"""What is refused, by which status, and what others notice of it."""

import gzip
import http.client
import json
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from running_service import Client, running
from zgul.errors import ZgulError
from zgul.serve import app, language_info
from zgul.serve.serve_config import ServeConfig

SENTENCE = "Hetta er ein roynd við nógvum orðum. "


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "texts"),
        ({"texts": []}, "texts"),
        ({"texts": [{"text": "a"}]}, "texts.0.lang"),
        ({"texts": [{"text": "a", "lang": "nosuchlanguage"}]}, "texts.0.lang"),
        ({"texts": [{"lang": "fo"}]}, "texts.0"),
        ({"texts": [{"text": "a", "words": ["a"], "lang": "fo"}]}, "texts.0"),
        ({"texts": [{"words": ["a b"], "lang": "fo"}]}, "texts.0.words.0"),
        ({"texts": [{"words": [], "lang": "fo"}]}, "texts.0.words"),
        ({"texts": [{"words": ["a"], "lang": "fo", "word_langs": []}]}, "texts.0"),
        ({"texts": [{"words": ["a"], "lang": "fo", "word_langs": ["nosuchlanguage"]}]}, "texts.0.word_langs.0"),
        ({"texts": [{"text": "a", "lang": "fo", "word_langs": [None]}]}, "texts.0"),
        ({"texts": [{"text": "\ud800", "lang": "fo"}]}, "texts.0.text"),
        ({"texts": [{"text": "a", "lang": "fo"}], "task": "parse"}, "task"),
        ({"texts": [{"text": "a", "lang": "fo"}], "em_steps": 21}, "em_steps"),
        ({"texts": [{"text": "a", "lang": "fo"}], "em_lr": -1}, "em_lr"),
        ({"texts": [{"text": "a", "lang": "fo"}], "em": False, "em_steps": 0}, ""),
        ({"texts": [{"text": "a", "lang": "fo"}], "model": "/etc"}, "model"),
        ([], ""),
    ],
)
def test_errors_name_the_field(client: Client, body: Any, field: str) -> None:
    answer = client.post("/v1/tag", body)
    assert answer.status == 422 and answer.error["code"] == "wrong_field"
    assert answer.error.get("field", "") == field
    assert answer.error["message"].endswith(".") or answer.error["message"].endswith("?")


def test_a_wrong_task_and_a_word_with_blanks_are_told_what_is_right(client: Client) -> None:
    wrong = client.post("/v1/tag", {"texts": [{"text": "a", "lang": "fo"}], "task": "parse"})
    assert wrong.error["message"] == "task: Input should be 'pos', 'ner' or 'both'."
    wrong = client.post("/v1/tag", {"texts": [{"words": ["a b"], "lang": "fo"}]})
    assert "A word has no blanks" in wrong.error["message"] and "as text" in wrong.error["message"]


def test_bad_requests(client: Client) -> None:
    for body, status in ((b"{", 400), (b"\xff", 400), (b'{"texts": NaN}', 422), (b"", 422)):
        answer = client.post("/v1/tag", body, content_type="application/json")
        assert answer.status == status, body
    assert client.post("/v1/tag", b"{").status == 415
    assert client.post("/v1/tag", b"{}", content_type="text/plain").error["code"] == "wrong_type"
    assert client.post("/v1/read", {}).status == 415
    assert client.get("/v1/tag").error["code"] == "wrong_method"
    assert client.call("DELETE", "/v1/config").status == 405
    assert client.get("/nothing").error["code"] == "not_found"
    assert client.post("/nothing", {}).status == 404
    deep = b'{"texts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert client.post("/v1/tag", deep, content_type="application/json").status in (400, 422)
    assert client.get("/v1/languages?limit=1000").error["field"] == "limit"


def test_sizes_are_limited(page: Path) -> None:
    with running(page, max_bytes=5000, max_words=50, max_texts=3, max_explained=5, max_sentence=20) as client:
        assert client.tag(SENTENCE * 5).status == 200
        words = client.tag(SENTENCE * 10)
        assert words.status == 413 and "50 words" in words.error["message"]
        texts = client.post("/v1/tag", {"texts": [{"text": "Hetta", "lang": "fo"}] * 4})
        assert texts.status == 413 and texts.error["field"] == "texts"
        long = client.post("/v1/tag", {"texts": [{"words": ["Hetta"] * 21, "lang": "fo"}]})
        assert long.status == 413 and "20 words" in long.error["message"]
        size = client.tag("a" * 5000)
        assert size.status == 413 and size.error["code"] == "too_large" and "5,000 bytes" in size.error["message"]
        request = {"words": ["Hetta"] * 6, "lang": "fo", "task": "pos", "em_steps": 0}
        assert client.post("/v1/explain", request).error["field"] == "words"
        bomb = client.upload("a.txt.gz", gzip.compress(b"a" * 10_000_000))
        assert bomb.status == 413 or len(gzip.compress(b"a" * 10_000_000)) > 5000
        assert client.upload("a.txt.gz", gzip.compress(b"a" * 6000)).error["field"] == "file"
        assert client.get("/v1/config").data["limits"]["bytes"] == 5000


def test_a_body_without_length_is_counted_while_it_comes(page: Path) -> None:
    with running(page, max_bytes=5000) as client, socket.create_connection(("127.0.0.1", client.port)) as line:
        line.sendall(b"POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        line.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"3e8\r\n" + b" " * 1000 + b"\r\n"
        line.sendall(chunk * 6)  # and the client does not say that it has finished
        assert line.recv(1000).startswith(b"HTTP/1.1 413")


def test_a_body_that_comes_too_slowly_is_given_up(page: Path) -> None:
    with running(page, max_seconds=0.5) as client, socket.create_connection(("127.0.0.1", client.port)) as line:
        line.sendall(
            b"POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        assert line.recv(1000).startswith(b"HTTP/1.1 408")


def test_what_takes_too_long_is_ended_and_does_not_go_on(page: Path) -> None:
    with running(page, max_seconds=1.0) as client:
        client.tag("Hetta er", "gsw")
        started = time.monotonic()
        answer = client.tag(SENTENCE * 2000, "gsw", em_steps=2)
        assert answer.status == 504 and answer.error["code"] == "too_long" and time.monotonic() - started < 5
        assert client.app.state.service.batcher.waiting == 0
        request = {"words": SENTENCE.split() * 14, "lang": "fo", "task": "pos", "em_steps": 20}
        assert client.post("/v1/explain", request).status in (200, 504)
        assert client.get("/healthz").status == 200


def test_a_full_queue_is_refused_with_a_time_to_come_back(page: Path) -> None:
    with running(page, max_waiting=50, max_words=50) as client:
        client.tag("Hetta er", "gsw")
        long, statuses = SENTENCE * 5, []  # 40 words each

        def ask() -> None:
            answer = client.tag(long, "gsw", em_steps=2)
            statuses.append((answer.status, answer.headers.get("retry-after")))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(statuses) == {(200, None), (503, "2")}  # some were taken


def test_requests_at_one_time_are_limited(page: Path) -> None:
    with running(page, max_requests=1) as client, socket.create_connection(("127.0.0.1", client.port)) as line:
        line.sendall(
            b"POST /v1/tag HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        time.sleep(0.2)
        assert client.tag("Hetta").error["code"] == "too_busy"
        assert client.get("/healthz").status == 200
        line.sendall(b"       }")
        assert line.recv(1000).startswith(b"HTTP/1.1 422")
        assert client.tag("Hetta").status == 200


def test_a_long_request_does_not_block_short_ones(client: Client) -> None:
    batcher, finished = client.app.state.service.batcher, []

    def ask(name: str, text: str) -> None:
        assert client.tag(text).status == 200
        finished.append(name)

    long = threading.Thread(target=ask, args=("long", SENTENCE * 200))  # several batches
    long.start()
    wait_for(lambda: batcher.waiting > 0)
    ask("short", "Hetta er ein roynd.")
    assert batcher.waiting > 0 and finished == ["short"]
    long.join()
    assert finished == ["short", "long"]


def test_a_client_that_goes_away_is_no_longer_worked_for(client: Client) -> None:
    batcher = client.app.state.service.batcher
    body = json.dumps({"texts": [{"text": SENTENCE * 2400, "lang": "gsw"}], "em_steps": 2}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", client.port)
    connection.request("POST", "/v1/tag", body, {"Content-Type": "application/json"})
    wait_for(lambda: batcher.waiting > 0)
    connection.close()
    wait_for(lambda: batcher.waiting == 0)
    assert client.tag("Hetta er ein roynd.").status == 200
    assert 'status="499"' in client.get("/metrics").body.decode()


def wait_for(condition: Any, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_log_has_no_text_of_a_user(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        client.tag("Loynilig orð, sum eingin skal síggja.")
        client.tag("Loynilig orð", "loynilanguage")
        client.get("/v1/languages?q=loynilig")
        client.get("/loynilig/path")
        client.upload("loynilig.txt", b"loynilig")
        broken = client.app.state.service.load
        client.app.state.service.load = lambda *_, **__: {}["loynilig"]
        try:
            answer = client.tag("Loynilig orð")
        finally:
            client.app.state.service.load = broken
    assert answer.status == 500 and set(answer.error) == {"code", "message"} and "loynilig" not in str(answer.body)
    text = caplog.text.lower()
    assert "loynilig" not in text and "POST /v1/tag 200" in caplog.text and "8 words" in caplog.text
    assert "KeyError in" in caplog.text and "GET other 404" in caplog.text and "GET /v1/languages 200" in caplog.text


def test_no_path_of_the_machine_is_told(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path))  # an installation without taggers
    monkeypatch.setattr(app, "details", language_info.details.__wrapped__)  # whose answers are not kept for others
    with running(page) as client:
        for answer in (client.tag("Hetta"), client.get("/v1/languages/fo"), client.get("/static/none")):
            assert answer.status in (200, 404, 500) and str(tmp_path) not in answer.body.decode()
        assert client.tag("Hetta").error["code"] == "internal"


def test_a_key(page: Path) -> None:
    with running(page, api_key="geheim€") as client:
        for path in ("/v1/languages", "/v1/examples", "/metrics"):
            answer = client.get(path)
            assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"
            assert answer.error["code"] == "no_key" and "geheim" not in str(answer.body)
        assert client.tag("Hetta").status == 401
        bearer = "Bearer geheim€".encode().decode("latin-1")
        assert client.get("/v1/languages", authorization="Bearer geheim").status == 401
        assert client.get("/v1/languages", authorization=bearer).status == 200
        for path in ("/healthz", "/", "/static/main.js", "/v1/config"):
            assert client.get(path).status == 200
        assert client.get("/v1/config").data["key_needed"] is True


def test_cors_is_off_unless_an_origin_is_named(client: Client, page: Path) -> None:
    origin = "https://example.org"
    assert "access-control-allow-origin" not in client.get("/v1/config", origin=origin).headers
    ask = {"origin": origin, "access_control_request_method": "POST"}
    assert client.call("OPTIONS", "/v1/tag", **ask).status == 405
    with running(page, cors=origin, api_key="key") as other:
        assert other.get("/v1/config", origin=origin).headers["access-control-allow-origin"] == origin
        assert "access-control-allow-origin" not in other.get("/v1/config", origin="https://evil.example").headers
        allowed = other.call("OPTIONS", "/v1/tag", **ask, access_control_request_headers="authorization,content-type")
        assert allowed.status == 200 and allowed.headers["access-control-allow-origin"] == origin
        assert other.get("/v1/languages", origin=origin).headers["access-control-allow-origin"] == origin  # a 401


def test_every_answer_has_security_headers(client: Client) -> None:
    for answer in (client.get("/"), client.get("/nothing"), client.tag("Hetta"), client.post("/v1/tag", b"{")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert client.tag("Hetta").headers["cache-control"] == "no-store"


def test_options_are_checked_before_the_service_starts() -> None:
    for wrong in ({"port": 70000}, {"max_words": 0}, {"max_waiting": 10}, {"device": "tpu"}, {"precision": "int3"}):
        with pytest.raises(ZgulError):
            ServeConfig(**wrong)  # type: ignore[arg-type]
