"""The language adapters that come with the package."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from zgul.adapters.language_adapter import LanguageAdapter, select_adapters
from zgul.adapters.storage import load_adapters
from zgul.errors import ZgulError
from zgul.files import shipped_folder

ADAPTERS = "adapters.safetensors"


def shipped_adapters(languages: Sequence[str] | None = None) -> list[LanguageAdapter]:
    """The shipped language adapters: of these languages, in this order, or all."""
    path = shipped_folder() / ADAPTERS
    if not path.is_file():
        raise ZgulError(f"{path}: the shipped language adapters are missing. Install the package again.")
    return _load(path) if languages is None else select_adapters(_load(path), languages)


@lru_cache(maxsize=2)
def _load(path: Path) -> list[LanguageAdapter]:
    return load_adapters(path)
