"""The broker about itself: health, version, settings, metrics."""

import platform
from typing import Any

from msgspec import Struct

from cordwood import __version__
from cordwood.auth.right import Right
from cordwood.http.request import Request
from cordwood.http.response import Response
from cordwood.server import config, metrics
from cordwood.server.desk import Desk, as_json
from cordwood.server.need import ADMIN_OF_ALL, LISTED, OPEN
from cordwood.server.refusals import refused
from cordwood.server.route import Route, json, only_names


class TierHealth(Struct, frozen=True):
    """The store cannot be used now: history waits in the journal, and is shipped when it can."""

    status: str
    since: int
    error: str
    backlog_bytes: int


class Health(Struct, frozen=True, omit_defaults=True):
    """The broker takes messages. `tier` is there while the store cannot be used."""

    status: str
    tier: TierHealth | None = None


class Version(Struct, frozen=True):
    """What runs, and since when."""

    version: str
    python: str
    started_at: int


def healthz(desk: Desk, request: Request) -> Response:
    """Say whether the broker takes messages."""
    only_names(request)
    failure = desk.broker.failure
    if failure is not None:
        return refused(failure, status="failed")
    trouble = desk.running.tier_trouble
    if trouble is None:
        return as_json(Health("ok"))
    backlog = desk.broker.shipping.backlog_bytes
    return as_json(Health("ok", TierHealth("unavailable", trouble.since_ms, trouble.error, backlog)))


def version(desk: Desk, request: Request) -> Response:
    """Say what runs."""
    only_names(request)
    return as_json(Version(__version__, platform.python_version(), desk.running.started_ms))


def show_config(desk: Desk, request: Request) -> Response:
    """Show the settings in force; those of the computer only to whom the whole broker is."""
    only_names(request)
    whole = request.visit is None or request.visit.may_everywhere(Right.ADMIN)
    return as_json(config.in_force(desk.running, whole=whole))


def show_metrics(desk: Desk, request: Request) -> Response:
    """Show what happened and how things stand."""
    only_names(request)
    return Response(200, metrics.text(desk), metrics.CONTENT_TYPE)


ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/healthz", "Whether the broker takes messages", OPEN, healthz, {200: json(Health)}),
    Route("GET", "/v1/version", "What runs", OPEN, version, {200: json(Version)}),
    Route("GET", "/v1/config", "The settings in force", LISTED, show_config, {200: json(dict[str, Any])}),
    Route(
        "GET",
        "/metrics",
        "Prometheus metrics",
        ADMIN_OF_ALL,
        show_metrics,
        {200: {"text/plain": str}},
        opened_by="metrics_public",
    ),
)
