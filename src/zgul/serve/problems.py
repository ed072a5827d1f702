"""Errors of a request: a status, a code for programs, and one or two sentences with the cause and the next step."""

import contextlib
from collections.abc import Iterator
from typing import Any

from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from zgul.errors import ZgulError

CODES = {400: "bad_request", 401: "no_key", 404: "not_found", 405: "wrong_method", 408: "too_slow", 413: "too_large"}
CODES |= {415: "wrong_type", 422: "wrong_field", 500: "internal", 503: "too_busy", 504: "too_long"}
RETRY_AFTER = "2"  # seconds
NO_WORD = "A word has no blanks and no control characters. Send running text as text instead of words."


class Problem(HTTPException):
    """Ends a request with an error. ``field`` leads to the value that is wrong: ``texts.0.lang``."""

    def __init__(self, status: int, message: str, field: str = "", code: str = "") -> None:
        headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": RETRY_AFTER}}
        super().__init__(status, message, headers.get(status))
        error = {"code": code or CODES[status], "message": f"{field}: {message}" if field else message}
        self.content = {"error": error | ({"field": field} if field else {})}

    def response(self) -> JSONResponse:
        return JSONResponse(self.content, self.status_code, self.headers)


@contextlib.contextmanager
def blame(field: str) -> Iterator[None]:
    """Turn a user's mistake into an error of this field."""
    try:
        yield
    except ZgulError as error:
        raise Problem(422, str(error), field) from error


def answer_error(_: Any, error: Any) -> JSONResponse:
    """An error of ours or of the framework, such as an unknown path."""
    if isinstance(error, Problem):
        return error.response()
    messages = {404: "There is no such page. GET /openapi.json lists what there is."}
    messages[405] = "This path takes another method. GET /openapi.json says which."
    status = error.status_code if error.status_code in CODES else 400
    problem = Problem(status, messages.get(status, "The body could not be read. Check its form."))
    problem.headers = problem.headers or error.headers  # which methods are allowed
    return problem.response()


def answer_invalid(_: Any, error: Any) -> JSONResponse:
    """The first field that does not fit the schema. The value itself is not repeated."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return Problem(400, f"The body is not valid JSON ({first['ctx']['error']}).", code="bad_json").response()
    field = ".".join(str(part) for part in first["loc"][1:])
    message = first["msg"].removeprefix("Value error, ").rstrip(".") + "."
    if first["type"] == "string_pattern_mismatch":
        message = NO_WORD if "words" in field else "This is not a tag."
    return Problem(422, message, field).response()
