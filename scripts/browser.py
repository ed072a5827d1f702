"""`zgul serve` and a browser that shows its page, for `screenshots.py` and the tests of the page."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--no-first-run"]
ADDRESS = re.compile(r"http://\S+")


def find_browser() -> str | None:
    """The browser that is installed. Playwright's own is not downloaded."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextlib.contextmanager
def running_service(**environment: str) -> Iterator[str]:
    """Run `zgul serve` on a free port of this machine; gives the address of its page."""
    command = [sys.executable, "-m", "zgul", "serve", "--port", "0", "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | environment) as process:
        assert process.stderr
        try:
            lines = []
            for line in process.stderr:
                lines.append(line)
                if found := ADDRESS.search(line):
                    break
            else:
                raise RuntimeError("zgul serve ended: " + "".join(lines))
            # the log is read on, because a service whose log nobody reads stands still when the pipe is full
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield found[0]
        finally:
            process.terminate()


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        yield browser
        browser.close()
