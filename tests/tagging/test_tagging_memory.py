"""Memory of a long stream: nothing is kept for batches that are done."""

import subprocess
import sys

import pytest

MANY_SHAPES = """
import zgul.tagging.tagger as tagging
import torch
from pathlib import Path

def held():
    tagging._give_back()
    told = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(told["RssAnon"].split()[0]) / 1024

torch.set_num_threads(2)
weights = [torch.randn(1536, 384), torch.randn(384, 1536)]
bias = torch.randn(1536)

def multiply(rows):
    inner = torch.nn.functional.linear(torch.randn(rows, 384), weights[0], bias)
    torch.nn.functional.linear(torch.nn.functional.gelu(inner), weights[1])

with torch.inference_mode():
    for rows in range(500, 532):
        multiply(rows)
    before = held()
    for rows in range(100, 500):
        multiply(rows)
    print(held() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_products_of_ever_new_shapes_leave_nothing_behind() -> None:
    done = subprocess.run([sys.executable, "-c", MANY_SHAPES], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 6  # MB
