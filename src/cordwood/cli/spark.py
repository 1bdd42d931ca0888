"""`cordwood spark`: pipelines over topics, on this computer or on a cluster."""

import json
from pathlib import Path

import click

from cordwood.cli.endpoint import as_json, endpoint

master = click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")


@click.group()
def spark() -> None:
    """Run Spark over topics: compact their history, and look at every checksum of it."""


@spark.command("compact")
@click.argument("topic")
@click.option(
    "--target-mib", type=click.IntRange(1, 4096), default=256, show_default=True, help="Bytes of one object."
)
@master
@endpoint
@as_json
def compact(topic: str, target_mib: int, master: str, endpoint: str, as_json: bool) -> None:
    """Join many small objects of a topic into few large ones; readers and the broker go on meanwhile.

    \b
    Example: cordwood spark compact clicks --master spark://10.0.0.1:7077
    """
    from cordwood.spark.pipelines.compact import compact as run
    from cordwood.spark.session import start

    found = run(start(master), endpoint, topic, target_bytes=target_mib << 20, tell=_tell)
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        click.echo(f"{found.objects_before} objects became {found.objects_after}; {found.messages} messages moved")


@spark.command("scrub")
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

    found = run(start(master), endpoint, list(topics) or None, tell=_tell)
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


def _tell(line: str) -> None:
    click.echo(line, err=True)
