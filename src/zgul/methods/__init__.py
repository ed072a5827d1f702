"""The methods of the paper, and those of others, by name. `zgul.paper.rows` has the rows of the paper's tables.

Another package adds its methods with `register`, in a module that its pyproject.toml names as an entry point of the
group ``zgul.methods``.
"""

from importlib.metadata import entry_points

from zgul.errors import ZgulError
from zgul.methods import cpg, madx, sft, zgul
from zgul.methods.base import Method, MethodOptions, Parts

__all__ = ["METHODS", "Method", "MethodOptions", "Parts", "find_method", "register"]

METHODS: dict[str, Method] = {method.name: method for module in (sft, madx, cpg, zgul) for method in module.METHODS}


def find_method(name: str) -> Method:
    if name not in METHODS:
        raise ZgulError(f"There is no method {name!r}. Choose one of: {', '.join(METHODS)}.")
    return METHODS[name]


def register(method: Method) -> None:
    """Add a method under its name, for `zgul.training`, saved taggers and ``zgul train --method``."""
    if method.name in METHODS:
        raise ZgulError(f"There is a method {method.name!r} already. Choose another name for yours.")
    METHODS[method.name] = method


for _entry in entry_points(group="zgul.methods"):
    _entry.load()
