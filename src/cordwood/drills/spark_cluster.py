"""A standalone Spark cluster of real processes on loopback, from the pip package alone.

    a Master, and Workers that are on "hosts" of their own, 127.0.0.1, 127.0.0.2, …: Spark runs no second attempt of a
    task beside the first on one host. Each Worker starts an executor for each application.

Whatever they start is in their sessions, and ends with them.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

START_S = 120  # a process that hangs is a finding; a slow machine is none
_KILLED = "finished with state EXITED message Command exited with code 137"
WORKER_MEMORY, EXECUTOR_MEMORY = "1g", "700m"
# Small and soon over: no second compiler, no threads that collect.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "FATAL",
}


class Process(NamedTuple):
    """What the kernel says of a process."""

    pid: int
    parent: int
    session: int
    command: str


class Cluster:
    """A Master and some Workers with a core each, for the length of a `with`."""

    def __init__(self, directory: Path, workers: int = 2, environment: Mapping[str, str] | None = None):
        self._directory = directory
        self._count = workers
        self._environment = dict(os.environ if environment is None else environment)
        self._started: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> "Cluster":
        try:
            log = self._start("master.Master", 1, "--port", "0")
            self.url = self._said(log, r"Starting Spark master at (spark://\S+)")
            given = ("--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(self._directory / "work"), self.url)
            for log in [self._start("worker.Worker", host, *given) for host in range(1, self._count + 1)]:
                self._said(log, r"Successfully registered with master (\S+)")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill all of it, as `kill -9` does."""
        for one in self._started:
            end_session(one.pid)
            one.wait()
        self._started.clear()

    def executors(self) -> list[Process]:
        """Return the executors' Java processes that run now."""
        sessions = {one.pid for one in self._started}
        return [one for one in processes() if one.session in sessions and "CoarseGrainedExecutor" in one.command]

    def executors_killed(self) -> int:
        """Return how many executors ended by SIGKILL while their application ran, as the Workers say."""
        logs = self._directory.glob("worker.Worker.*.log")
        return sum(log.read_text(errors="replace").count(_KILLED) for log in logs)

    def _start(self, kind: str, host: int, *arguments: str) -> Path:
        """Start a part of it, and return where it says what it does."""
        home = _spark_home()
        address = f"127.0.0.{host}"
        log = self._directory / f"{kind}.{len(self._started)}.log"
        self._directory.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as said:
            started = subprocess.Popen(
                [
                    str(home / "bin" / "spark-class"),
                    f"org.apache.spark.deploy.{kind}",
                    *("--host", address, "--webui-port", "0"),
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                env={
                    **self._environment,
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_IP": address,  # its page is for this computer alone, too
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
                    "PYSPARK_PYTHON": sys.executable,
                },
            )
        self._started.append(started)
        return log

    def _said(self, log: Path, ready: str) -> str:
        """Return what a part of it says when it is ready."""
        until = time.monotonic() + START_S
        while time.monotonic() < until and all(one.poll() is None for one in self._started):
            found = re.search(ready, log.read_text(errors="replace"))
            if found:
                return found[1]
            time.sleep(0.05)
        raise AssertionError(f"the cluster does not start: {log.read_text(errors='replace')[-2000:]}")


def processes() -> list[Process]:
    """Return all processes that there are."""
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended
        if fields[0] != "Z":
            found.append(Process(int(directory.name), int(fields[1]), int(fields[3]), command))
    return found


def end_session(session: int) -> None:
    """Kill all processes of a session, those as well that a dying one starts; Spark's have several groups.

    Who is in it dies last, or the others would live.
    """
    while mine := [one.pid for one in processes() if one.session == session]:
        for pid in sorted(mine, key=os.getpid().__eq__):
            kill(pid)
        time.sleep(0.01)


def kill(pid: int) -> None:
    """Kill a process, if it is there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _spark_home() -> Path:
    found = find_spec("pyspark")
    assert found is not None, "pyspark is there, or nobody would start a cluster"
    assert found.origin is not None, "it is a package"
    return Path(found.origin).parent
