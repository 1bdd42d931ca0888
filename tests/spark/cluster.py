"""A driver in a process of its own, on a real standalone cluster of two workers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from cordwood.drills.spark_cluster import Cluster, end_session

__all__ = ["Cluster", "Driver"]


class Driver:
    """A process with a SparkSession that does steps of `cluster_driver`, for the length of a `with`."""

    def __init__(self, master: str, log: Path, environment: dict[str, str], settings: dict[str, str]):
        self._log = log
        command = [sys.executable, "-m", "tests.spark.cluster_driver", master, json.dumps(settings)]
        with log.open("wb") as said:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, **environment},
                cwd=Path(__file__).parent.parent.parent,
                start_new_session=True,
            )

    def __enter__(self) -> "Driver":
        assert self._answer() == "started"
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        end_session(self.process.pid)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def ask(self, step: str, **asked: Any) -> Any:
        """Have it do a step, and return what came of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"step": step, **asked}).encode() + b"\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the driver ended: {self._log.read_text(errors='replace')[-3000:]}"
        answer = json.loads(line)
        assert "done" in answer, answer["failed"]
        return answer["done"]
