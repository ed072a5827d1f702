"""The methods of the paper, by name. `zgul.paper.rows` has the rows of its tables."""

from zgul.errors import ZgulError
from zgul.methods import cpg, madx, sft, zgul
from zgul.methods.base import Method, MethodOptions, Parts

__all__ = ["METHODS", "Method", "MethodOptions", "Parts", "find_method"]

METHODS: dict[str, Method] = {method.name: method for module in (sft, madx, cpg, zgul) for method in module.METHODS}


def find_method(name: str) -> Method:
    if name not in METHODS:
        raise ZgulError(f"There is no method {name!r}. Choose one of: {', '.join(METHODS)}.")
    return METHODS[name]
