"""What happens in the demo, in order.

1 load       a broker, three producers, a group of two consumers, a job in `cordwood run`
2 crash      SIGKILL in the middle of it; a moment without a broker; it starts again
3 drain      producers end, consumers work off what is left
4 history    the broker ships everything as Parquet
5 table      Spark lands the topic, as a typed Parquet table
6 proof      log, history and table are read again, and compared with what was acknowledged
"""

import json
import logging
import subprocess
import sys
import time
from pathlib import Path

from cordwood.client.client import Client
from cordwood.demo import counting, job, traffic
from cordwood.demo.job import Job
from cordwood.demo.proof import Seen
from cordwood.demo.pulse import Pulse
from cordwood.demo.screen import Screen
from cordwood.demo.traffic import Traffic
from cordwood.errors import CordwoodError
from cordwood.serving import Serving, environment

SETTINGS = ("--set", "tier_interval_s=1")  # or the demo would wait a minute for history
SCENES_S = (5.0, 1.5, 4.0)  # of load before the kill, without a broker, and of load after
SHIP_S = 60.0
POLL_S = 0.1


class Story:
    """Plays on a scratch directory; `seen` counts what is there, as often as one likes."""

    def __init__(self, scratch: Path, scenes_s: tuple[float, float, float] = SCENES_S):
        self._before_s, self._away_s, self._after_s = scenes_s
        self.data = scratch / "data"
        self.table = scratch / "lake" / traffic.TOPIC
        self.broker = Serving(scratch, *SETTINGS)
        self.pulse = Pulse()
        self.screen = Screen(self.pulse)
        self.not_landed: str | None = None  # why there is no table
        self._outbox = scratch / "outbox"
        self._traffic: Traffic | None = None
        self._job: Job | None = None
        self._failures: list[str] = []

    def play(self) -> None:
        """Make everything happen. Raises CordwoodError when the broker does not start, or Spark fails."""
        logging.getLogger("cordwood.client").setLevel(logging.ERROR)  # that acks are refused is what a kill does
        self.broker.start()
        self.screen.say(f"a broker runs at {self.broker.endpoint}, on a scratch directory")
        with Client(self.broker.endpoint) as client:
            client.create_topic(traffic.TOPIC, partitions=traffic.PARTITIONS)
            client.create_topic(job.TOPIC)
        self._load()
        self._history()
        self._land()

    def seen(self) -> Seen:
        """Return what was claimed, and what is found now."""
        assert self._traffic is not None, "it was played"
        with Client(self.broker.endpoint) as client:
            return Seen(
                sent=sum(self._traffic.sent),
                acknowledged=frozenset().union(*self._traffic.acknowledged),
                delivered=self._traffic.delivered,
                lag=int(client.group(traffic.TOPIC, traffic.GROUP)["lag"]),
                log=counting.in_log(client, traffic.TOPIC),
                history=counting.in_history(self.data / "tier", traffic.TOPIC),
                table=None if self.not_landed else counting.in_table(self.table),
                job=counting.of_job(client, job.TOPIC),
                job_wanted=job.expected(),
                failures=[*self._traffic.failures, *self._failures],
            )

    def end(self) -> None:
        """Stop whatever still runs."""
        if self._job is not None:
            self._job.stop()
        self.broker.stop()

    def drop(self) -> None:
        """End whatever still runs, at once; what it holds is not wanted."""
        if self._job is not None:
            self._job.stop()
        self.broker.drop()

    def _load(self) -> None:
        self._traffic = Traffic(self.broker.endpoint, self.pulse)
        self.pulse.begin()
        self._traffic.start()
        self._job = Job(self.broker.endpoint, self._outbox)
        who = f"{traffic.PRODUCERS} producers, {traffic.CONSUMERS} consumers and a job in `cordwood run`"
        self.screen.say(f"{who} begin")
        with self.screen.live("messages go in and come out"):
            time.sleep(self._before_s)
        self.broker.kill()
        self.pulse.mark()
        self.screen.say(f"kill -9 of the broker, {self._so_far()}; nobody was told")
        with self.screen.live("there is no broker"):
            time.sleep(self._away_s)
        begun = time.monotonic()
        self.broker.start()
        self.pulse.mark()
        self.screen.say(f"started again on the same directory, ready after {time.monotonic() - begun:.1f} s")
        with self.screen.live("everybody goes on where they were"):
            time.sleep(self._after_s)
        with self.screen.live("producers end, consumers work off the rest, the job ends"):
            self._traffic.finish()
            self.pulse.end()
            failure = self._job.finish()
        if failure is not None:
            self._failures.append(failure)
        self.screen.say(f"done: {self._so_far()}")

    def _so_far(self) -> str:
        assert self._traffic is not None, "it was started"
        acknowledged = sum(map(len, self._traffic.acknowledged))
        return f"{acknowledged:,} messages acknowledged, {len(self._traffic.delivered):,} delivered"

    def _history(self) -> None:
        end = time.monotonic() + SHIP_S
        with self.screen.live("the broker ships history"), Client(self.broker.endpoint) as client:
            while counting.not_in_history(client, traffic.TOPIC):
                if time.monotonic() > end:
                    self._failures.append(f"history was not shipped within {SHIP_S:.0f} s")
                    return
                time.sleep(POLL_S)
        size = sum(path.stat().st_size for path in (self.data / "tier").glob("topics/**/*.parquet"))
        self.screen.say(f"history is shipped: {size / 1e6:.1f} MB of Parquet")

    def _land(self) -> None:
        """Land the topic with the command that a user would give. Without Spark or Java, say so and go on."""
        command = [sys.executable, "-m", "cordwood", "spark", "land", traffic.TOPIC, str(self.table), "--json"]
        with self.screen.live("Spark starts, and lands the topic as a table (some 20 s)"):
            done = subprocess.run(
                [*command, "--schema", traffic.SCHEMA, "--endpoint", self.broker.endpoint],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                env=environment(),
            )
        if done.returncode == 2:  # refused: there is no Spark here, or no Java
            self.not_landed = done.stderr.strip().splitlines()[-1].removeprefix("cordwood: ")
            self.screen.say(f"NOT landed: {self.not_landed}")
        elif done.returncode:
            raise CordwoodError(f"`cordwood spark land` failed: {done.stderr.strip()[-2000:]}")
        else:
            rows = json.loads(done.stdout.splitlines()[-1])["rows"]
            self.screen.say(f"Spark landed {rows:,} rows as a typed table")
