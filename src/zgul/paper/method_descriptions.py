"""A description of every method: what it trains and freezes, how it infers, which rows of the paper it gives."""

from dataclasses import dataclass

from zgul.methods import METHODS
from zgul.methods.sizes import RELEASE_FORMS, count_parameters
from zgul.paper.numbers import COST
from zgul.paper.rows import Row, rows_of


@dataclass(frozen=True)
class MethodDescription:
    """What one method trains and how it infers. Parameters are counted at the size of mBERT, with 17 labels."""

    name: str
    title: str
    trained_on: str
    trained: tuple[str, ...]
    frozen: tuple[str, ...]
    strategies: tuple[str, ...]  # the first is the default
    rows: tuple[Row, ...]
    trainable_parameters: int
    in_the_paper: float | None  # trainable parameters that the paper prints, in millions
    in_the_release: dict[str, int]  # of the forms that the authors' release has, by group


def describe_methods() -> list[MethodDescription]:
    """Describe every method. The numbers are counted on the methods' own modules."""
    described = []
    for name, method in METHODS.items():
        sizes, forms = count_parameters(method), RELEASE_FORMS if name == "zgul" else {}
        parts = (tuple(sizes.trained), tuple(sizes.frozen), method.strategies, tuple(rows_of(name)), sizes.trainable)
        released = {group: count_parameters(method, options).trainable for group, options in forms.items()}
        languages, printed = "English" if method.english_only else "all sources", COST.get(method.title, "parameters")
        described.append(MethodDescription(name, method.title, languages, *parts, printed, released))
    return described
