"""Abbreviations: words whose full stop does not end a sentence.

They come from two places: a short list for each language, and the text itself. A word that mostly has a full stop with
lower case after it (``geb. in``) is an abbreviation, because sentences seldom begin in lower case.
"""

from __future__ import annotations

from collections import Counter

import regex

LEARN_FROM = 1 << 18  # characters: enough to learn from, and the counts stay small
_LISTS = {  # by language codes
    "every language": "dr prof tel mr mrs ms st hr fr sr jr ing vs ca",
    "before numbers": "no nr num p pp s str vol fig art kap abs bl bls kl kr č стр ст п т гл рис",
    "en pcm sco": "gen col capt sgt lt rev hon gov sen rep messrs approx",
    "de gsw nds lb": "bzw evtl ggf sog vgl inkl exkl geb gest bspw insb ehem str zzgl frhr",
    "fo is da nb nn no sv": "frk hra sbr skv dvs fil mag",
    "cs sk": "tzv např mgr judr mudr rndr doc sv čl odst pozn",
    "hsb dsb pl": "tzw mj sw św hab inż mgr ul np",
    "ru uk be bg mk sr orv": "ул им проф акад см ср напр гр доц",
    "hi bho mr ne mai": "डॉ प्रो श्री पं कु स्व",
    "bn as": "ড ডা মো মি ডঃ",
    "sw": "bw bi dk mhe mh",
    "ha ig yo": "alh mal engr barr",
    "fr": "mme mlle mgr",
    "es pt it": "sra srta dra ud uds sig",
}
BEFORE_NUMBERS = frozenset(_LISTS.pop("before numbers").split())
EVERY_LANGUAGE = frozenset(_LISTS.pop("every language").split())
LISTED = {code: EVERY_LANGUAGE.union(words.split()) for codes, words in _LISTS.items() for code in codes.split()}
_WITHOUT_STOP = regex.compile(r"\p{L}[\p{L}\p{M}]*+(?!\.)")
_WITH_STOP = regex.compile(r"(?<![\p{L}\p{M}.])(\p{L}[\p{L}\p{M}]*+)\.\s+(?:(\p{Ll})|\p{Lu})")


class Abbreviations:
    """The abbreviations of a text: those listed for its language, and those that the text itself shows."""

    def __init__(self, language: str | None = None) -> None:
        self._listed = LISTED.get(language or "", EVERY_LANGUAGE)
        self._without_stop: Counter[str] = Counter()
        self._before_lower: Counter[str] = Counter()
        self._before_upper: Counter[str] = Counter()
        self._characters = 0

    def learn(self, text: str) -> None:
        """Count the words of a passage with and without a full stop."""
        if self._characters > LEARN_FROM:
            return
        self._characters += len(text)
        self._without_stop.update(_WITHOUT_STOP.findall(text.lower()))
        for match in _WITH_STOP.finditer(text):
            counts = self._before_lower if match[2] else self._before_upper
            counts[match[1].lower()] += 1

    def __contains__(self, word: str) -> bool:
        word = word.lower()
        if word in self._listed:
            return True
        shown = self._before_lower[word]
        return shown > 1 and shown > self._before_upper[word] and shown > self._without_stop[word]
