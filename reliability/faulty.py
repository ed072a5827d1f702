"""A target that fails on purpose, so that a test can see that the fuzzer notices: one kind of failure a case."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from reliability.cases import Case, check_words
from zgul.errors import ZgulError


class Faulty:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, case: Case) -> None:
        match case.number:
            case 1:
                raise ZgulError("a proper refusal")
            case 2:
                raise KeyError("a traceback")
            case 3:
                check_words(["a", "c"], ["a", "b"])
            case 4:
                subprocess.run(["true"], check=True)
            case 5:
                (case.folder.parent / "elsewhere").write_text("x")
            case 6:
                bytearray(3 << 30)
            case 7:
                os.kill(os.getpid(), signal.SIGSEGV)
            case 8:
                time.sleep(60)
