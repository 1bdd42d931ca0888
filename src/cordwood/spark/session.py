"""A SparkSession that works: the right Java, and workers that run this Python."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cordwood.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_JAVA = 17  # Spark 4's
_INSTALL = "install one (Debian: apt-get install default-jre-headless) or set JAVA_HOME"


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
    trouble = java_trouble(os.environ)
    if trouble is not None:
        raise Refused(trouble)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take whatever `python3` is
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    found: SparkSession = builder.getOrCreate()
    return found


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
