"""Take the picture of the terminal that the README shows, from the real output of `zgul tag`: ``make screenshots``.

    python scripts/terminal_picture.py [--output docs/images]

It writes terminal.svg. Fonts are those of the reader's machine.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from zgul.files import atomic_write

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH = 84
CALLS = (
    ("zgul", "tag", "--lang", "fo", "Skipið fór úr Havn í morgun og kom til Klaksvíkar."),
    ("zgul", "tag", "--lang", "luo", "Japuonj Grace Akinyi nobiro Kisumu tarik 12 Mei."),
)
FONT_FACES = re.compile(r"@font-face \{.*?\}", re.DOTALL)  # they would be loaded from another host


def shown(call: tuple[str, ...]) -> str:
    """What a call prints on a screen, in colour."""
    command = [sys.executable, "-m", "zgul", *call[1:-1], "--format", "terminal", call[-1]]
    colour = {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    return subprocess.run(command, env=os.environ | colour, capture_output=True, text=True, check=True).stdout


def picture() -> str:
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: PTH123, SIM115
    for call in CALLS:
        console.print(Text.assemble(("$ ", "dim"), " ".join(call[:-1]), f' "{call[-1]}"'), soft_wrap=True)
        console.print(Text.from_ansi(shown(call)))
    svg = FONT_FACES.sub("", console.export_svg(title="zgul tag", theme=MONOKAI, unique_id="zgul"))
    return svg.replace("Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=IMAGES, help="folder for the picture")
    path = parser.parse_args().output / "terminal.svg"
    with atomic_write(path, "wb") as file:
        file.write(picture().encode())
    print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
