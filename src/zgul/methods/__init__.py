"""Every method of the paper, by name. `zgul.paper.rows` lists the rows of its tables that they give."""

from __future__ import annotations

from zgul.errors import ZgulError
from zgul.methods import cpg, madx, sft, zgul
from zgul.methods.base import Method, MethodOptions, Parts

__all__ = ["METHODS", "Method", "MethodOptions", "Parts", "method"]

METHODS: dict[str, Method] = {method.name: method for module in (sft, madx, cpg, zgul) for method in module.METHODS}


def method(name: str) -> Method:
    """The method of this name."""
    if name not in METHODS:
        raise ZgulError(f"there is no method {name!r}; there are: {', '.join(METHODS)}")
    return METHODS[name]
