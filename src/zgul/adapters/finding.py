"""Find the language adapters of a bank: shipped ones, new ones, files, folders, AdapterHub."""

from collections.abc import Sequence
from pathlib import Path

from zgul.adapters.adapterhub import read_adapter
from zgul.adapters.adapterhub_index import CONFIG
from zgul.adapters.language_adapter import LanguageAdapter, select_adapters
from zgul.adapters.shipped import shipped_adapters
from zgul.adapters.storage import adapter_files, load_adapters
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError


def find_adapters(
    places: str, languages: Sequence[str], encoder: Encoder, encoder_name: str = ""
) -> list[LanguageAdapter]:
    """The adapters of these languages from one place or, separated by commas, several. The first that has one wins.

    A place is "shipped", "new" (adapters that change nothing yet), our own file, a folder of such files and of
    AdapterHub's folders (or one such folder itself), or a hub name with {lang} in it, such as "{lang}/wiki@ukp".
    """
    found: dict[str, LanguageAdapter] = {}
    for place in places.split(","):
        missing = [language for language in languages if language not in found]
        for adapter in _adapters_at(place.strip(), missing, encoder, encoder_name) if missing else ():
            found.setdefault(adapter.language, adapter)
    return select_adapters(found.values(), languages)


def _adapters_at(place: str, languages: Sequence[str], encoder: Encoder, encoder_name: str) -> list[LanguageAdapter]:
    if place == "new":
        return [LanguageAdapter.new(language, encoder.width, encoder.depth) for language in languages]
    if place == "shipped":
        return shipped_adapters()
    if "{lang}" in place:
        names = {language: place.replace("{lang}", language) for language in languages}
        return [read_adapter(name, language, encoder=encoder_name) for language, name in names.items()]
    path = Path(place).expanduser()
    if path.is_file():
        return load_adapters(path)
    if not path.is_dir():
        raise ZgulError(
            f"No language adapters at {place!r}. Give shipped, new, a file or folder, or a hub name with {{lang}}."
        )
    if (path / CONFIG).is_file():
        return [read_adapter(path)]
    folders = [path / language for language in languages if (path / language / CONFIG).is_file()]
    files = adapter_files(path)
    if not folders and not files:
        raise ZgulError(
            f"{place} holds no language adapters of {', '.join(languages)}. Train one with: zgul adapter train"
        )
    return [read_adapter(folder, folder.name) for folder in folders] + [
        a for file in files for a in load_adapters(file)
    ]
