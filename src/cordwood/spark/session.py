"""A SparkSession that works: the right Java, workers that run this Python, and executors that can open the store.

    Java       that which `cordwood.spark.java` finds
    the store  what the driver's environment says of a cloud (AWS_…, GOOGLE_…, AZURE_…) is handed to the executors of
               a cluster, unless `spark.executorEnv.…` says it already

Keys go over Spark's own connections and never into a command line, which everybody on a computer can see; Spark's
pages and event logs show them as redacted.
"""

import os
import re
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cordwood.errors import Refused
from cordwood.spark.java import java_home

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

# As the clouds' own tools name them; what each means to us is in `cordwood.machine.objects.credentials`.
CLOUDS = re.compile(r"(AWS|GOOGLE|AZURE)_\w+|STORAGE_EMULATOR_HOST")
LOCAL_SOCKETS = "spark.python.unix.domain.socket.enabled"  # TCP takes a tenth of what reading history takes
EXECUTOR_ENV = "spark.executorEnv."
REDACTION = "spark.redaction.regex"
_SPARKS_REDACTION = "(?i)secret|password|token|access[.]?key"


def start(
    master: str = "local[*]", name: str = "cordwood", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return a session; one that is active already is taken. Raises Refused, in one line, where there can be none."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise Refused("Spark is missing: pip install 'cordwood[spark]'") from None
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    home, trouble = java_home(os.environ)
    if trouble is not None:
        raise Refused(trouble)
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take whatever `python3` is
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**_faster(), **(settings or {})}.items():
        builder = builder.config(key, value)
    if not master.startswith("local"):  # there executors have the driver's environment as it is
        builder = builder.config(conf=_handed(settings or {}))
    found: SparkSession = builder.getOrCreate()
    return found


def _faster() -> dict[str, str]:
    """Return what makes Spark faster with Python's workers, where there is such a thing."""
    return {LOCAL_SOCKETS: "true"} if hasattr(socket, "AF_UNIX") else {}


def _handed(settings: Mapping[str, str]) -> "SparkConf":
    """Return what executors are told of the driver's environment.

    Spark's own process is started first, since whatever is known before that is put on its command line.
    """
    from pyspark import SparkConf, SparkContext

    first = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        first.set(key, value)
    SparkContext._ensure_initialized(conf=first)
    known = dict(SparkConf().getAll())  # now with what spark-defaults.conf says
    handed = SparkConf(loadDefaults=False)
    for key, value in for_executors(os.environ, known).items():
        handed.set(key, value)
    return handed


def for_executors(environment: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that hand a cloud's keys to executors, and hide them; what is known stays as it is."""
    names = [name for name in environment if CLOUDS.fullmatch(name)]
    found = {EXECUTOR_ENV + name: environment[name] for name in names if EXECUTOR_ENV + name not in known}
    if found:
        found[REDACTION] = rf"{known.get(REDACTION, _SPARKS_REDACTION)}|executorEnv\.(AWS|GOOGLE|AZURE)_"
    return found
