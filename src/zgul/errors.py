"""Errors and warnings that are meant for the user: they say what is wrong and what to do next."""


class ZgulError(Exception):
    """A user's mistake or a broken input. The command line prints it without a traceback."""


class ZgulWarning(UserWarning):
    """Something was assumed on the user's behalf; the text says what."""


def first_line(error: Exception) -> str:
    """The beginning of the first line of an error's message, or its kind if it has no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
