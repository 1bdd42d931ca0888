"""`cordwood spark scrub`."""

import json
from pathlib import Path

import click

from cordwood.cli.endpoint import as_json, endpoint, reach
from cordwood.cli.spark.options import master, shown, tell


@click.command("scrub", short_help="Check every object of some topics, or of all.")
@click.argument("topics", nargs=-1)
@click.option("--report", type=click.Path(path_type=Path), help="Write a page of HTML here, too.")
@master
@endpoint
@as_json
@click.pass_context
def scrub(
    context: click.Context, topics: tuple[str, ...], report: Path | None, master: str, endpoint: str, as_json: bool
) -> None:
    """Check every object of some topics, or of all: checksums, pages, offsets. Exit code 65 if something is wrong.

    \b
    Example: cordwood spark scrub --report scrub.html
    """
    from cordwood.spark.pipelines.scrub import page
    from cordwood.spark.pipelines.scrub import scrub as run
    from cordwood.spark.session import start

    reach(endpoint)
    found = run(start(master), endpoint, list(topics) or None, tell=tell, **shown())
    if report is not None:
        report.write_text(page(found))
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        click.echo(f"{found.objects} objects, {found.messages} messages: {len(found.findings)} findings")
        for one in found.findings:
            click.echo(f"{one.topic}/{one.partition}: {one.first} to {one.end - 1}: {one.object or ''} {one.reason}")
    if not found.clean:
        context.exit(65)
