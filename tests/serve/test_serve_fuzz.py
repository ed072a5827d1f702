"""Requests of all kinds, made from OpenAPI: no answer is a server error, and every answer is as OpenAPI says."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from running_service import Client
from zgul.serve.app import API

schemathesis = pytest.importorskip("schemathesis", reason="pip install 'zgul[dev]'")


@pytest.fixture(scope="module")
def api(client: Client) -> Any:
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{client.port}/openapi.json")


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in API if path.startswith("/")])
def test_answers_are_as_openapi_says(api: Any, path: str) -> None:
    method = "POST" if "extra" in API[path] else "GET"
    names = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
    checks = [getattr(schemathesis.checks, name) for name in names]

    @given(case=api[path][method].as_strategy())
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    def check(case: Any) -> None:
        case.call_and_validate(checks=checks)

    check()
