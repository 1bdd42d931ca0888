"""`cordwood token`: make, list and revoke tokens, in the data directory of a broker that may be running."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cordwood.cli.duration import Duration
from cordwood.cli.endpoint import as_json
from cordwood.cli.show import age_text, table
from cordwood.errors import Refused

if TYPE_CHECKING:
    from cordwood.auth.right import Grant
    from cordwood.auth.token import Token
    from cordwood.auth.token_file import TokenFile

data = click.option(
    "--data",
    envvar="CORDWOOD_DATA",
    default="data",
    show_default=True,
    metavar="DIR",
    help="The broker's data directory.",
)
file = click.option("--file", "path", metavar="FILE", help="The broker's token_file, if it has one elsewhere.")


@click.group(short_help="Make, list and revoke tokens.")
def token() -> None:
    """Make, list and revoke tokens. With the first one the broker's door is locked, and stays so.

    A running broker takes notice within two seconds, or at once on SIGHUP.

    \b
    Example: cordwood token create shop --produce orders --consume orders
    """


@token.command("create", short_help="Make a token and print it.")
@click.argument("name")
@click.option("--produce", multiple=True, metavar="PREFIX", help="May produce to topics that begin like this.")
@click.option("--consume", multiple=True, metavar="PREFIX", help="May consume and read such topics.")
@click.option("--admin", multiple=True, metavar="PREFIX", help="May do everything with such topics.")
@click.option("--expires", type=Duration(), metavar="TIME", help="Ends after 30d, 12h, 45m… [default: never]")
@data
@file
@as_json
def create(
    name: str,
    produce: tuple[str, ...],
    consume: tuple[str, ...],
    admin: tuple[str, ...],
    expires: int | None,
    data: str,
    path: str | None,
    as_json: bool,
) -> None:
    """Make a token and print it; it is shown this once, and kept only as a hash. PREFIX '*' means every topic.

    \b
    Example: cordwood token create shop --produce orders --consume orders --expires 90d
             cordwood token create ops --admin '*' --data /var/lib/cordwood
    """
    from cordwood.auth import token as tokens
    from cordwood.auth.right import Right

    asked = ((Right.PRODUCE, produce), (Right.CONSUME, consume), (Right.ADMIN, admin))
    grants = tuple(dict.fromkeys(_grant(right, prefix) for right, prefixes in asked for prefix in prefixes))
    if not grants:
        raise Refused(
            "a token without rights is of no use: give --produce, --consume or --admin with a prefix, or '*'"
        )
    now_ms = int(time.time() * 1000)
    made, text = tokens.make(name, grants, now_ms, None if expires is None else now_ms + expires)
    _file(data, path).add(made)
    if as_json:
        click.echo(json.dumps({**_shown(made), "token": text}))
    else:
        click.echo(f"token {name} may {_rights(made)}; this is the only time it is shown:", err=True)
        click.echo(text)


@token.command("list", short_help="List the tokens and their rights.")
@data
@file
@as_json
def list_tokens(data: str, path: str | None, as_json: bool) -> None:
    """List the tokens: names, rights and times; the tokens themselves are nowhere.

    \b
    Example: cordwood token list --data /var/lib/cordwood
    """
    found = _file(data, path).read()
    if as_json:
        click.echo(json.dumps({"tokens": [_shown(one) for one in found or ()]}))
    elif found is None:
        click.echo(
            "no tokens: everybody who reaches the broker may do everything; make one with: cordwood token create"
        )
    elif not found:
        click.echo("all tokens are revoked: nobody may come in; make one with: cordwood token create")
    else:
        now_ms = int(time.time() * 1000)
        rows = [
            (one.name, one.id, _rights(one), age_text(now_ms - one.created_at), _ends(one, now_ms)) for one in found
        ]
        table(["name", "id", "rights", "age", "expires"], rows)


@token.command("revoke", short_help="Revoke a token.")
@click.argument("name", metavar="NAME|ID")
@data
@file
@as_json
def revoke(name: str, data: str, path: str | None, as_json: bool) -> None:
    """Revoke a token: within two seconds the broker refuses it, and ends the streams that it opened.

    To revoke the last one does not open the door: then nobody comes in until another one is made.

    \b
    Example: cordwood token revoke shop
    """
    gone = _file(data, path).remove(name)
    if as_json:
        click.echo(json.dumps(_shown(gone)))
    else:
        click.echo(f"token {gone.name} is revoked")


def _file(data: str, path: str | None) -> "TokenFile":
    from cordwood.auth.token_file import NAME, TokenFile

    return TokenFile(Path(path) if path is not None else Path(data) / NAME)


def _grant(right: Any, prefix: str) -> "Grant":
    from cordwood.auth.right import Grant

    bare = prefix.removesuffix("*")
    if not prefix:
        raise Refused(f"--{right} '' would be every topic; say '*' if that is meant")
    return Grant(right, bare)


def _rights(one: "Token") -> str:
    return ", ".join(map(str, one.rights))


def _ends(one: "Token", now_ms: int) -> str:
    if one.expires_at is None:
        return "never"
    return "expired" if one.expired(now_ms) else f"in {age_text(one.expires_at - now_ms)}"


def _shown(one: "Token") -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        "rights": [{"right": str(right), "prefix": prefix} for right, prefix in one.rights],
        "created_at": one.created_at,
        "expires_at": one.expires_at,
    }
