"""Build src/zgul/languages/names.npz: what languages are called in other languages, from CLDR (babel 2.18.0).

A line has a language's ISO 639-3 code and its names, separated by tabs. A name that the table of languages finds anyway
is left out. Needs babel: python scripts/build_names.py
"""

from pathlib import Path

import numpy as np
from babel import Locale

from zgul.languages.language import _names, load_table, plain_name

PLACE = Path(__file__).resolve().parents[1] / "src" / "zgul" / "languages" / "names.npz"
# Large languages, and neighbours of the languages that zgul is made for.
LOCALES = (
    *("am", "ar", "be", "bg", "bn", "cs", "da", "de", "el", "es", "et", "fa", "fi", "fr", "ha", "he", "hi", "hr"),
    *("hsb", "hu", "id", "ig", "is", "it", "ja", "ko", "lt", "lv", "ml", "nb", "ne", "nl", "nn", "pl", "pt", "ro"),
    *("ru", "sk", "sl", "sr", "sr_Latn", "sv", "sw", "ta", "te", "tr", "uk", "ur", "vi", "yo", "zh", "zu"),
)
MORE = {  # names that CLDR lacks, mostly the speakers' own
    "hsb": "serbsce, hornjoserbsce, sorbisch, Oberwendisch",
    "dsb": "serbski, serbsce, dolnoserbski, sorbisch, Niederwendisch",
    "gsw": "Schwyzerdütsch, Schwiizertüütsch, Schwizerdütsch, Züritüütsch, Bärndütsch, Schweizerdeutsch, Alemannisch",
    "fao": "føroyskt mál, Färingisch",
    "got": "gutiska razda, gutrazda, gotisch",
    "qpm": "Pomakça, помашки, Πομακικά, pomácky",
    "orv": "древнерусский, давньоруська, Altostslawisch",
    "chu": "словѣньскъ ѩзыкъ, старославянский, Altkirchenslawisch, Altbulgarisch",
    "hau": "Harshen Hausa",
    "ibo": "Asụsụ Igbo, Asusu Igbo",
    "lug": "Oluganda",
    "luo": "Kiluo, Kijaluo",
    "pcm": "Naijá, Pidgin English, Broken English",
    "nds": "Plattdeutsch, Plattdüütsch, Low Saxon, Lower Saxon",
}


def main() -> None:
    table, known = load_table(), _names()
    locales = [Locale.parse(name).languages for name in LOCALES]
    lines = []
    for one, three in zip(table.iso1, table.iso3, strict=True):
        names = MORE.get(three, "").split(", ") + [names.get(one or three, "") for names in locales]
        new = {plain_name(name): name for name in names if len(plain_name(name)) > 1}
        if fresh := [name for name in new if name not in known]:
            lines.append("\t".join([three, *fresh]))
    np.savez_compressed(PLACE, names=np.frombuffer("\n".join(lines).encode("utf-8"), np.uint8))
    print(f"{PLACE}: {len(lines)} languages, {PLACE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
