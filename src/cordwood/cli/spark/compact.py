"""`cordwood spark compact`."""

import json

import click

from cordwood.cli.endpoint import as_json, endpoint, reach
from cordwood.cli.spark.options import master, shown, tell


@click.command("compact", short_help="Join many small objects of a topic into few large ones.")
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

    reach(endpoint)
    found = run(start(master), endpoint, topic, target_bytes=target_mib << 20, tell=tell, **shown())
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        click.echo(f"{found.objects_before} objects became {found.objects_after}; {found.messages} messages moved")
