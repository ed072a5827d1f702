"""A million sentences pass through reader and writer in the memory of one."""

import subprocess
import sys
from pathlib import Path

import pytest

COPY = """
import resource, sys
from pathlib import Path
from zgul.corpora import conllu

class Generated:
    '''A CoNLL-U file of so many sentences that never lies in memory.'''
    name = "generated"
    def __init__(self, sentences):
        self.lines = (line for number in range(sentences) for line in self.sentence(number))
    def sentence(self, number):
        words = ["Hetta", "er", f"setningur{number}", "í", "langari", "fílu", "."]
        yield f"# sent_id = {number}\\n".encode()
        yield f"# text = {' '.join(words)}\\n".encode()
        for place, word in enumerate(words, start=1):
            yield f"{place}\\t{word}\\t_\\tNOUN\\t_\\t_\\t0\\troot\\t_\\t_\\n".encode()
        yield b"\\n"
    def readline(self, limit):
        return next(self.lines, b"")

written = 0
with open(sys.argv[1], "w") as file:
    for sentence in conllu.read(Generated(int(sys.argv[2]))):
        sentence.set_tags("pos", ["X"] * len(sentence))
        file.write(str(sentence))
        written += 1
again = sum(1 for sentence in conllu.read(sys.argv[1]) if sentence.upos[-1] == "X")
status = Path("/proc/self/status")
if status.exists():  # Linux: what getrusage calls the maximum includes that of the process which started this one
    peak = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) * 1024
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(written, again, peak)
"""


def copied(path: Path, sentences: int) -> tuple[int, int, int]:
    run = subprocess.run(
        [sys.executable, "-c", COPY, str(path), str(sentences)], capture_output=True, text=True, check=True
    )
    written, again, peak = map(int, run.stdout.split())
    return written, again, peak


@pytest.mark.slow
def test_a_million_sentences_stream_in_little_memory(tmp_path: Path) -> None:
    _, _, small = copied(tmp_path / "small.conllu", 1000)
    written, again, peak = copied(tmp_path / "large.conllu", 1_000_000)
    print(f"{(tmp_path / 'large.conllu').stat().st_size / 1e6:.0f} MB of text, peak {peak / 1e6:.0f} MB of memory")
    assert written == again == 1_000_000
    assert peak < 600e6
    assert peak < small + 20e6  # it does not grow with the file
