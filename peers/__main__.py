"""Train other taggers on the sentences of zgul's, score all, and write docs/peers.md.

python -m peers run [--systems udpipe] [--groups african]   # what is stored is not repeated
python -m peers speed                                       # words a second on one idle core, in minutes
python -m peers check                                       # score the stored tags again
python -m peers report                                      # write docs/peers.md from docs/results/peers
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from peers import ROOT, RUNS, STORED, page, runs, speed
from peers.systems import load_systems
from zgul.errors import ZgulError
from zgul.languages import GROUPS


def main(arguments: list[str] | None = None) -> int:
    systems = load_systems()
    parser = argparse.ArgumentParser(
        prog="python -m peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("run", "speed", "check", "report"))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the labelled data")
    parser.add_argument("--systems", nargs="+", default=list(systems), choices=systems, metavar="NAME")
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=GROUPS, metavar="GROUP")
    parser.add_argument("--runs", type=Path, default=RUNS, help="folder for models [runs/peers]")
    parser.add_argument("--stored", type=Path, default=STORED, help="folder for results [docs/results/peers]")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "peers.md")
    parser.add_argument("--limit", type=int, default=0, help="sentences of each source that peers learn from [all]")
    parser.add_argument("--sentences", type=int, default=250, help="sentences of each file that are timed [250]")
    given = parser.parse_args(arguments)
    chosen = {name: systems[name] for name in given.systems}
    if given.command != "report" and not given.data.is_dir():
        raise ZgulError(f"{given.data}: no such folder. Name the labelled data: make peers DATA=DIR")
    if given.command == "run":
        for system in chosen.values():
            for group in given.groups:
                runs.run(system, GROUPS[group], given.data, given.runs, given.stored, print, given.limit)
    elif given.command == "speed":
        speed.measure(chosen, given.data, given.runs, given.stored, given.sentences, print)
    elif given.command == "check":
        wrong = runs.check(given.data, given.stored)
        print("\n".join(wrong) or "All stored F1 follow from the stored tags.")
        return 1 if wrong else 0
    else:
        print(f"{page.write(given.stored, given.page)} written")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ZgulError as error:
        sys.exit(f"Error: {error}")
