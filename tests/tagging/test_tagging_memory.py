"""Memory of a long stream: nothing is kept of windows that are done."""

import subprocess
import sys
from pathlib import Path

import pytest

STREAM = """
import itertools, random, zgul
from pathlib import Path
from zgul.corpora.sentence import Sentence

def held():
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) / 1024

def sentences(count):
    pick = random.Random(0)
    words = [a + b for a in "bdgmnlr" for b in "eiou"]
    for _ in range(count):
        yield Sentence(pick.choices(words, k=pick.randint(1, 60)))

tagged = zgul.load("fo", "pos", em=False).tag_sentences(sentences(4000))
for _ in itertools.islice(tagged, 1500):
    pass
before = held()
words = sum(len(sentence) for sentence in tagged)
print(words, held() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_stream_of_ever_new_lengths_leaves_nothing_behind(taggers: Path) -> None:
    done = subprocess.run([sys.executable, "-c", STREAM], capture_output=True, text=True, check=True)
    words, grown = map(float, done.stdout.split())
    assert words > 60_000
    assert grown < 10  # MB
