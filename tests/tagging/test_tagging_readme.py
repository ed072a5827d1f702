"""The examples of the README and of docs/tagging.md give what these pages say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import zgul
from zgul.corpora import conllu

README = Path(__file__).parents[2] / "README.md"
GUIDE = README.parent / "docs" / "tagging.md"


def test_the_example_prints_what_its_comments_say() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "import zgul" in block]
    environment = {name: value for name, value in os.environ.items() if name != "ZGUL_TAGGERS"}
    environment["PYTHONIOENCODING"] = "utf-8"
    done = subprocess.run(
        [sys.executable, "-c", example], env=environment, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.splitlines() == re.findall(r"# (.*)", example)


def test_the_shares_of_words_in_another_language_are_those_of_the_guide(tmp_path: Path) -> None:
    page = GUIDE.read_text(encoding="utf-8")
    block = page[page.index("# text = Hon las") :].partition("```")[0]
    shares = [
        {code: float(share) for code, share in re.findall(r"(\w+):([\d.]+)", found)}
        for found in re.findall(r"`((?:\w+:0\.\d\d,?){3})`", page[page.index("the mix of the third word") :])
    ]
    tagger = zgul.load("fo", "pos", adapted=False, weights=True)
    for number, text in enumerate((block.replace("Lang=de", "_"), block)):
        path = tmp_path / "a.conllu"
        path.write_text(text + "\n", encoding="utf-8")
        (sentence,) = [one.to_sentence() for one in conllu.read(path, check_upos=False)]
        for word, written in ((2, shares[number]), (3, shares[2 + number])):
            assert tagger.tag(sentence)[0].weights[word] == pytest.approx(written, abs=0.03)
