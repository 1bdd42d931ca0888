"""Whatever the OpenAPI document allows, and much that it does not: no 5xx, no status that is not documented."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.generation import GenerationMode

from cordwood.embedding import Embedded, embedded
from cordwood.server.openapi import document
from cordwood.server.routes import ROUTES

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 25  # for each route

schema = schemathesis.openapi.from_dict(document(ROUTES))
schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
# A stream that never ends has no response to check; it has tests of its own.
ending = schema.exclude(path_regex=r"/(consume|live)$")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    path: Path = tmp_path_factory.mktemp("any-request")
    with embedded(path, auto_create_topics=True) as running:
        yield running


@ending.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_one_that_is_documented(case: schemathesis.Case, broker: Embedded) -> None:
    if isinstance(case.query, dict):
        case.query.pop("follow", None)  # or it never ends
        case.query.pop("wait_ms", None)
    if isinstance(case.body, dict):
        case.body.pop("follow", None)
        case.body.pop("wait_ms", None)
    response = case.call(base_url=broker.endpoint, timeout=30)
    case.validate_response(response, checks=CHECKS)


def test_the_broker_still_works(broker: Embedded) -> None:
    assert requests.get(f"{broker.endpoint}/v1/healthz", timeout=30).json() == {"status": "ok"}
