"""Speed against the peers: measures the rows, writes JSON, a table and a chart.

python -m benchmarks                                        # this machine's CPU, about ten minutes
python -m benchmarks --device cuda --encoder ENCODER.q4.safetensors --data DIR
python -m benchmarks --rows em forward --full
python -m benchmarks --report docs/results/performance      # docs/performance.md from the stored results
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from benchmarks import report, rows
from benchmarks.harness import ROOT, Result, machine, say
from benchmarks.setup import CPU, GPU, Context

RESULTS = ROOT / "docs" / "results" / "performance"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda [cpu]")
    parser.add_argument(
        "--rows", nargs="+", choices=rows.ROWS, default=list(rows.ROWS), metavar="ROW", help=", ".join(rows.ROWS)
    )
    parser.add_argument(
        "--encoder", default="embedded", help="the embedded encoder as a .q4.safetensors file or folder"
    )
    parser.add_argument(
        "--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with pos/, ner/, text/"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "bench", help="folder for the results")
    parser.add_argument("--threads", type=int, help="of torch [all cores]")
    parser.add_argument("--commit", help="that is measured, where git cannot tell")
    parser.add_argument("--full", action="store_true", help="whole files and 100,000 sentences, however long it takes")
    parser.add_argument(
        "--report", type=Path, metavar="DIR", help="measure nothing: write docs/performance.md from DIR/*.json"
    )
    told = parser.parse_args(arguments)
    if told.report:
        path = report.write_page(told.report, ROOT / "docs" / "performance.md")
        print(f"{path} written")
        return
    if told.threads:
        torch.set_num_threads(told.threads)
    device = torch.device(told.device)
    sizes = GPU if device.type == "cuda" else CPU
    data = told.data if told.data.is_dir() else None
    context = Context(device, machine(device), sizes, told.encoder, data, told.full)
    if told.commit:
        context.machine.about["commit"] = told.commit

    def store(results: list[Result]) -> Path:  # after each row: what is stopped counts for what it measured
        return report.store(told.output, context.machine, results, device.type)

    results = rows.run(context, told.rows, store)
    print(report.table(report.read(store(results))))
    say(f"written to {told.output}")
    if any(result.reason.startswith("not timed") for result in results):
        sys.exit("outputs differ: see the table")


if __name__ == "__main__":
    main()
