"""An index of the pieces of a Unigram vocabulary, so that a short text loads only the pieces in its words.

Reading a whole ``tokenizer.json`` of 250,000 pieces takes half a second and 320 MB. `IndexedTokenizer` looks up the
substrings of the words in an SQLite file and makes a tokenizer of the pieces it finds. No other piece can be part of
these words, so they are cut in the same way (see `zgul.encoders.tokenizer`). A long text loads the whole vocabulary.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models

from zgul.encoders.tokenizer import ROLES, PieceTokenizer
from zgul.errors import ZgulError

INDEX = "pieces.sqlite"
FEW = 30_000  # characters that are cut with the index; more take longer than reading the whole vocabulary
_MARK = "▁"  # stands for the blank before a word


def index_of(text: str) -> bytes:
    """The index of a ``tokenizer.json`` that `zgul.encoders.tokenizer.tokenizer_json` made."""
    contents, whole = json.loads(text), PieceTokenizer.parse(text, {}, "tokenizer.json")
    vocabulary = [(piece, index, score) for index, (piece, score) in enumerate(contents["model"]["vocab"])]
    about = {
        # the score of an unknown character depends on the lowest score
        "lowest": min(vocabulary, key=lambda entry: entry[2]),
        "longest": max(len(piece) for piece, _, _ in vocabulary),
        "ids": {role: getattr(whole, role) for role in ROLES},
        "added": [token["content"] for token in contents["added_tokens"]],
        # normaliser and pre-tokenizer, without pieces
        "empty": {**contents, "added_tokens": [], "model": {"type": "Unigram", "vocab": [["<unk>", 0]], "unk_id": 0}},
    }
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("create table pieces (piece text primary key, id integer, score real) without rowid")
        database.executemany("insert into pieces values (?, ?, ?)", vocabulary)
        database.execute("create table about (value text)")
        database.execute("insert into about values (?)", (json.dumps(about),))
        database.commit()
        return database.serialize()


class IndexedTokenizer(PieceTokenizer):
    """The tokenizer of a folder with an index. ``backend``, the whole tokenizer, is loaded when it is first used."""

    about: Mapping[str, Any]
    folder: Path
    asked: int  # characters so far
    blank = ""

    def __init__(self, folder: Path) -> None:
        try:
            with closing(_open(folder)) as database:
                about = json.loads(database.execute("select value from about").fetchone()[0])
        except (sqlite3.Error, TypeError) as error:
            raise ZgulError(f"{folder / INDEX} cannot be read ({error})") from error
        vars(self).update(about["ids"], about=about, folder=folder, asked=0)

    @cached_property
    def backend(self) -> Any:
        return PieceTokenizer.from_folder(self.folder).backend

    @cached_property
    def _empty(self) -> Any:
        return Tokenizer.from_str(json.dumps(self.about["empty"]))

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds the whole tokenizer, because another machine may have no such folder."""
        return PieceTokenizer, (self.backend, *(getattr(self, role) for role in ROLES))

    def tokenise(self, words: list[str]) -> list[list[int]]:
        vars(self)["asked"] = self.asked + sum(map(len, words))
        special = any(token in word for word in words for token in self.about["added"])
        if "backend" not in vars(self) and self.asked <= FEW and not special:
            try:
                return self._cut(words)
            except sqlite3.Error as error:
                problem = f"{self.folder} is damaged ({INDEX}: {error})"
                raise ZgulError(f"{problem}. Delete the folder; zgul will create it again.") from error
            except UnicodeError:  # half of a character, which is named below
                return super().tokenise(words)
        return super().tokenise(words)

    def _cut(self, words: list[str]) -> list[list[int]]:
        texts = (_MARK + self._empty.normalizer.normalize_str(word).replace(" ", _MARK) for word in words)
        longest = self.about["longest"]
        parts = {text[i:j] for text in texts for i in range(len(text)) for j in range(i + 1, i + 1 + longest)}
        with closing(_open(self.folder)) as database:
            find = "select piece, id, score from pieces where piece = ?"
            found = [row for part in parts for row in database.execute(find, (part,))]
        entries = [("<unk>", self.unknown, 0.0), self.about["lowest"], *found]
        small = Tokenizer(models.Unigram([(piece, score) for piece, _, score in entries], 0))
        small.normalizer, small.pre_tokenizer = self._empty.normalizer, self._empty.pre_tokenizer
        cut = small.encode_batch([[word] for word in words], is_pretokenized=True, add_special_tokens=False)
        return [[entries[piece][1] for piece in encoding.ids] for encoding in cut]


def _open(folder: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{(folder / INDEX).absolute().as_uri()}?mode=ro&immutable=1", uri=True)
