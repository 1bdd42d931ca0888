"""What commands take: where the broker is, where the outboxes are, and how to print."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

DEFAULT = "http://127.0.0.1:7878"
F = TypeVar("F", bound=Callable[..., Any])


def credentials(command: F) -> F:
    """Add the options that say how to get in; what they say holds for every endpoint of this process."""
    for option in (
        click.option(
            "--ca",
            metavar="FILE",
            expose_value=False,
            callback=lambda ctx, param, value: _use(ctx, "use_ca", value),
            help="Who signs the broker's certificate (PEM), if nobody this computer trusts. [env: CORDWOOD_CA]",
        ),
        click.option(
            "--token",
            expose_value=False,
            callback=lambda ctx, param, value: _use(ctx, "use_token", value),
            help="Your token. Others on this computer see it there; better in the environment. [env: CORDWOOD_TOKEN]",
        ),
    ):
        command = option(command)
    return command


def _use(ctx: click.Context, name: str, value: str | None) -> None:
    if value is not None:
        from cordwood.client import endpoint

        use = getattr(endpoint, name)
        use(value)
        ctx.call_on_close(lambda: use(None))


def endpoint(command: F) -> F:
    """Add the options that say where the broker is and how to get in."""
    where = click.option(
        "--endpoint",
        envvar="CORDWOOD_ENDPOINT",
        default=DEFAULT,
        help=f"Where the broker is. [env: CORDWOOD_ENDPOINT; default: {DEFAULT}]",
    )
    return where(credentials(command))


def reach(endpoint: str) -> None:
    """Return when the broker has answered. Raises Unavailable soon: whoever mistyped it shall not wait in silence."""
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        client.version()


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def outbox_directory(flag: str) -> Callable[[F], F]:
    """Return the option that says where the outboxes are."""
    return click.option(
        flag,
        "root",
        envvar="CORDWOOD_OUTBOX",
        default="~/.cordwood/outbox",
        metavar="DIR",
        help="Where the outboxes are. [env: CORDWOOD_OUTBOX; default: ~/.cordwood/outbox]",
    )


def settings_of(pairs: tuple[str, ...]) -> dict[str, object]:
    """Return the settings that were given as NAME=VALUE; an empty value, or `default`, takes one back."""
    found: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{pair!r}: say NAME=VALUE")
        if value in ("", "default"):
            found[name.replace("-", "_")] = None
        else:
            found[name.replace("-", "_")] = int(value) if value.lstrip("-").isdigit() else value
    return found
