"""Compare zgul's speed with other implementations. Writes JSON and a table.

python -m benchmarks                                        # this machine's CPU, about a quarter of an hour
python -m benchmarks --device cuda --encoder ENCODER.q4.safetensors --data DIR
python -m benchmarks --rows em forward --full
python -m benchmarks --report docs/results/performance      # write docs/performance.md from stored results
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from benchmarks import report, rows
from benchmarks.harness import ROOT, Result, say
from benchmarks.machine import describe_machine
from benchmarks.setup import CPU, GPU, Context
from zgul.files import read_json


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ", ".join(rows.ROWS) + " [all but adapt, which takes a quarter of an hour]"
    data, output = ROOT.parent / "shared" / "data", ROOT / "runs" / "bench"
    parser.add_argument("--device", default="cpu", help="cpu or cuda [cpu]")
    parser.add_argument("--rows", nargs="+", choices=rows.ROWS, default=rows.QUICK, metavar="ROW", help=names)
    parser.add_argument("--encoder", default="embedded", help="embedded, or its .q4.safetensors file or folder")
    parser.add_argument("--data", type=Path, default=data, help="folder with pos/, ner/ and text/")
    parser.add_argument("--output", type=Path, default=output, help="folder for the results")
    parser.add_argument("--name", help="name of the results, for rows that are measured alone [cpu or cuda]")
    parser.add_argument("--commit", help="commit that is measured, if git cannot tell")
    parser.add_argument("--full", action="store_true", help="whole files and a million words, however long it takes")
    parser.add_argument("--report", type=Path, metavar="DIR", help="only write docs/performance.md from DIR/*.json")
    given = parser.parse_args(arguments)
    if given.report:
        print(f"{report.write_page(given.report, ROOT / 'docs' / 'performance.md')} written")
        return
    device = torch.device(given.device)
    about = describe_machine(device) | ({"commit": given.commit} if given.commit else {})
    sizes = GPU if device.type == "cuda" else CPU
    context = Context(device, sizes, given.encoder, given.data if given.data.is_dir() else None, given.full)

    def store(results: list[Result]) -> Path:  # after each row, so that a stopped run keeps what it measured
        return report.store(given.output, about, results, given.name or device.type)

    results = rows.run(context, given.rows, store)
    print(report.table(read_json(store(results))))
    say(f"written to {given.output}")
    if any(result.reason.startswith("not timed") for result in results):
        sys.exit("outputs differ: see the table")


if __name__ == "__main__":
    main()
