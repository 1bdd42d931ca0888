"""Every command, with what its `--help` says."""

from collections.abc import Iterator

import click

from cordwood.cli.main import cli
from tools.reference.markdown import block, page, table

WIDTH = 100
EXITS = (
    ("0", "done"),
    ("1", "it failed; the line on stderr says why"),
    ("2", "wrong usage: a command, an option, a setting or a request that cannot be right"),
    ("65", "data is damaged; a person must look"),
    ("75", "not now: the same command may succeed later"),
    ("130", "ended with Ctrl-C"),
)


def commands(command: click.Command = cli, path: str = "cordwood") -> Iterator[tuple[str, click.Command]]:
    """Yield every command and group by its whole name, each group before what is in it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, f"{path} {name} is listed and not there"
            yield from commands(found, f"{path} {name}")


def help_of(path: str, command: click.Command) -> str:
    """Return what `--help` prints."""
    context = click.Context(
        command, info_name=path, terminal_width=WIDTH, max_content_width=WIDTH, help_option_names=["-h", "--help"]
    )
    return command.get_help(context)


def written() -> str:
    """Return the page."""
    found = list(commands())
    rows = [
        (f"[`{path}`](#{path.replace(' ', '-')})", command.get_short_help_str(limit=200))
        for path, command in found
        if not isinstance(command, click.Group)
    ]
    parts = [
        "`--json` prints JSON for programs wherever a person would read a table. Commands that talk to a broker take"
        " `--endpoint`, or `CORDWOOD_ENDPOINT`. This page is what `--help` prints.\n",
        table(("command", "what it does"), rows),
        "## Exit codes\n",
        table(("code", "meaning"), EXITS),
        "`cordwood run` ends with the exit code of the command that it runs ([the"
        " outbox](../outbox.md#cordwood-run)).\n",
    ]
    for path, command in found:
        parts += [f"## {path}\n", block(help_of(path, command))]
    return page("Command line", *parts)
