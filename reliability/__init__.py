"""Proofs that nothing is lost and nobody is let in: ``make fuzz``, ``make chaos``, ``python -m reliability --help``."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))  # tiny encoders, taggers and experiments are made as in the tests
