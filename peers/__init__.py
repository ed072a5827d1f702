"""Other taggers, trained here on the sentences of zgul's and scored on the same files: ``make peers``."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "docs" / "results" / "peers"
RUNS = ROOT / "runs" / "peers"
EMBEDDED = ROOT / "docs" / "results" / "embedded"
