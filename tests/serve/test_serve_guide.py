"""The curl examples of docs/serve.md work, and the page names every status and limit."""

import itertools
import re
import shlex
from pathlib import Path

import pytest

from running_service import Client
from zgul.serve.problems import CODES
from zgul.serve.serve_config import ServeConfig

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text("utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
CALLS = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[8:60])
def test_the_curl_examples_work(client: Client, call: str) -> None:
    words = shlex.split(call)
    assert words[:2] == ["curl", "-s"]
    path = next(word for word in words if word.startswith("localhost:8000")).removeprefix("localhost:8000")
    options = dict(itertools.pairwise(words))
    if "-F" in options:
        answer = client.upload(options["-F"].removeprefix("file=@").replace(".docx", ".txt"), b"Hetta er")
    elif "-d" in options:
        assert options["-H"] == "Content-Type: application/json"
        answer = client.post(path, options["-d"].encode(), content_type="application/json")
    else:
        answer = client.get(path)
    assert answer.status == 200 and answer.body, answer.body


def test_every_status_and_limit_is_in_the_guide() -> None:
    assert len(CALLS) >= 10
    for status, code in CODES.items():
        assert str(status) in GUIDE and f"`{code}`" in GUIDE
    for name, declared, _ in ServeConfig.declared():
        if declared.panel == "Limits":
            assert f"--{name.replace('_', '-')}" in GUIDE, name
