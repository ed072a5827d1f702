"""The README's example in Python prints what the README says."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_example_prints_what_its_comments_say() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "import zgul" in block]
    environment = {name: value for name, value in os.environ.items() if name != "ZGUL_TAGGERS"}
    environment["PYTHONIOENCODING"] = "utf-8"
    done = subprocess.run(
        [sys.executable, "-c", example], env=environment, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.splitlines() == re.findall(r"# (.*)", example)
