"""Prove that zgul is reliable, by attacking it.

python -m reliability fuzz                        # 100,000 cases of each target; --cases, --seconds, --workers
python -m reliability fuzz folders --seed 7
python -m reliability fuzz --case readers:0:4711  # one case again
python -m reliability chaos                       # kill -9 at 30 moments of each kind of work; --kills, --seconds
python -m reliability cluster                     # the same on a Ray cluster: workers, nodes, the command; --rounds
python -m reliability agree                       # the same tags however they are computed; on a GPU: reliability.gpu
python -m reliability dist                        # wheel and sdist twice, bit for bit; the wheel tags offline
python -m reliability report                      # write docs/reliability.md from stored results
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from reliability import ROOT, agreement, chaos, distribution, fuzz, page, torn_cluster
from reliability.targets import TARGETS
from zgul.cli.printing import ProgressBars

STORED = ROOT / "docs" / "results" / "reliability"
RUNS = ROOT / "runs"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m reliability", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("fuzz", help="feed it damaged and hostile input")
    one.add_argument("names", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    one.add_argument("--case", help="do one case again: TARGET:SEED:NUMBER")
    one.add_argument("--cases", type=int, default=100_000, help="cases of each target [100000]")
    one.add_argument("--keep", type=Path, default=RUNS / "fuzz", help="folder for cases that fail [runs/fuzz]")
    two = commands.add_parser("chaos", help="kill it, go on, and compare the files")
    two.add_argument("names", nargs="*", metavar="WORK", help=", ".join(chaos.WORKS))
    two.add_argument("--kills", type=int, default=30, help="kills of each kind of work [30]")
    for command in (one, two):
        command.add_argument("--seed", type=int, default=0, help="of all that is drawn [0]")
        command.add_argument("--seconds", type=float, default=0, help="at most this long for each [no limit]")
    one.add_argument("--workers", type=int, default=2, help="processes side by side [2]")
    three = commands.add_parser("cluster", help="kill workers, nodes and the command of a Ray cluster")
    three.add_argument("--rounds", type=int, default=4, help="texts to tag, with three kills each [4]")
    three.add_argument("--seed", type=int, default=0, help="of all that is drawn [0]")
    commands.add_parser("agree", help="compare tags that were computed in different ways")
    commands.add_parser("dist", help="build twice, compare, install and tag offline")
    commands.add_parser("report", help="write docs/reliability.md")
    for command in commands.choices.values():
        command.add_argument("--output", type=Path, help="folder for the results, such as docs/results/reliability")
    given = parser.parse_args(arguments)
    if unknown := [name for name in getattr(given, "names", ()) if name not in {**TARGETS, **chaos.WORKS}]:
        parser.error(f"there is no {unknown[0]}")
    does = {"fuzz": _fuzz, "chaos": _chaos, "cluster": _cluster, "agree": _agree, "dist": _dist, "report": _report}
    sys.exit(does[given.command](given))


def _fuzz(given: argparse.Namespace) -> int:
    if given.case:
        print("accepted" if fuzz.repeat_case(given.case) else "refused, as it should be")
        return 0
    failed = 0
    for name in given.names or TARGETS:
        with ProgressBars() as bars:
            outcome = fuzz.fuzz(
                name,
                given.cases,
                seed=given.seed,
                workers=given.workers,
                seconds=given.seconds,
                keep=given.keep,
                report=bars,
            )
        print(
            f"{name}: {outcome.cases:,} cases in {outcome.seconds:.0f} seconds; {outcome.accepted:,} accepted, "
            f"{outcome.refused:,} refused, {outcome.failed:,} failed; slowest {outcome.slowest:.2f} s, "
            f"most memory {outcome.memory / 1e6:,.0f} MB"
        )
        for case, problem in outcome.failures.items():
            print(f"  {case}: {problem}")
        failed += outcome.failed
        page.store(given.output, f"fuzz-{name}", asdict(outcome))
    return 1 if failed else 0


def _chaos(given: argparse.Namespace) -> int:
    failed = 0
    for name in given.names or chaos.WORKS:
        with ProgressBars() as bars:
            result = chaos.torment(name, given.kills, seed=given.seed, seconds=given.seconds, report=bars)
        print(f"{name}: {result.kills} kills in {result.rounds} runs, {len(result.different)} files differ")
        for file in result.different:
            print(f"  {file}")
        failed += len(result.different)
        page.store(given.output, f"chaos-{name}", asdict(result))
    return 1 if failed else 0


def _cluster(given: argparse.Namespace) -> int:
    with ProgressBars() as bars:
        result = torn_cluster.torment_cluster(given.rounds, given.seed, bars)
    print(", ".join(f"{name}: {value}" for name, value in result.items()))
    page.store(given.output, "cluster", result)
    return 1 if result["lost or doubled"] or result["outputs that differ"] else 0


def _agree(given: argparse.Namespace) -> int:
    counted = agreement.compare_all()
    for way, different in counted["different"].items():
        print(f"{way}: {different} of {counted['words']} tags differ, {counted['different_em'][way]} with EM")
    page.store(given.output, "agree", counted)
    return 1 if any((*counted["different"].values(), *counted["different_em"].values())) else 0


def _dist(given: argparse.Namespace) -> int:
    result = distribution.prove(ROOT)
    for name, digest in result["files"].items():
        print(f"{name}: built twice, the same: SHA-256 {digest}")
    print(result["offline"])
    page.store(given.output, "dist", result)
    return 0


def _report(given: argparse.Namespace) -> int:
    print(f"{page.write(given.output or STORED, ROOT / 'docs' / 'reliability.md')} written")
    return 0


if __name__ == "__main__":
    main()
