"""Take the pictures of the page that the docs show: ``make screenshots``.

    python scripts/screenshots.py [--output docs/images]

They are taken from a real `zgul serve` and stored as PNG with a palette, each below 200 kB.
"""

import argparse
import io
from dataclasses import dataclass
from pathlib import Path

from browser import running_browser, running_service
from PIL import Image
from playwright.sync_api import Browser

from zgul.files import atomic_write

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
MOST = 200_000  # bytes
PATIENCE = 60_000  # milliseconds
DESKTOP, PHONE = (1160, 1290), (360, 780)
FAROESE = " Kettan svevur á borðinum. Hon droymir um ein stóran fisk."


@dataclass(frozen=True)
class Shot:
    """What is to be seen: an example, perhaps with more text, and perhaps the panel of a word."""

    name: str
    example: str
    word: str = ""
    size: tuple[int, int] = DESKTOP
    dark: bool = False
    above: str = "body"  # what stands at the top
    more: str = ""  # text after the example


SHOTS = [
    Shot("page-desktop", "Faroese", "fiska", more=FAROESE),
    Shot("page-dark", "Gothic", "jah", size=(1160, 930), dark=True, above="#columns"),
    Shot("page-phone", "Hausa", size=PHONE, above="#columns"),
    Shot("page-phone-panel", "Hausa", "Kano", size=PHONE, above="#columns"),
    Shot("page-ethiopic", "Tigrinya", "ኣስመራ", size=(1160, 700), above="#columns"),
    Shot("page-arabic", "Sindhi", "حيدرآباد", size=(1160, 700), above="#columns"),
]


def take(browser: Browser, address: str, shot: Shot) -> bytes:
    """The picture as PNG."""
    width, height = shot.size
    look = {"color_scheme": "dark" if shot.dark else "light", "reduced_motion": "reduce"}
    page = browser.new_page(viewport={"width": width, "height": height}, **look)  # type: ignore[arg-type]
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.get_by_role("button", name=shot.example, exact=True).click()
    page.locator(".word").first.wait_for()
    if shot.more:
        page.fill("#text", page.input_value("#text") + shot.more)
        page.click("#submit")
        page.locator(".sentences > li").nth(1).wait_for()
    page.locator("#about h2").wait_for()
    if shot.word:
        page.locator(".word").filter(has=page.get_by_text(shot.word, exact=True)).first.click()
        page.locator("#slider").wait_for()
    page.mouse.move(0, 0)
    page.evaluate("selector => document.querySelector(selector).scrollIntoView()", shot.above)
    picture = page.screenshot()
    page.close()
    return picture


def shrink(picture: bytes) -> bytes:
    """The same picture with a palette of 256 colours."""
    few = Image.open(io.BytesIO(picture)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    target = io.BytesIO()
    few.save(target, "PNG", optimize=True)
    return target.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=IMAGES, help="folder for the pictures")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    with running_service() as address, running_browser() as browser:
        for shot in SHOTS:
            picture = shrink(take(browser, address, shot))
            if len(picture) > MOST:
                raise SystemExit(f"{shot.name} has {len(picture):,} bytes, more than {MOST:,}")
            path = output / f"{shot.name}.png"
            with atomic_write(path, "wb") as file:
                file.write(picture)
            print(f"{path}  {len(picture):,} bytes")


if __name__ == "__main__":
    main()
