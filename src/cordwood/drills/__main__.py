"""`make drill`: every drill, at scale, with counts and seeds printed. Exit code 1 if one fails.

python -m cordwood.drills                        all of them
python -m cordwood.drills whole --seed 7 --worlds 1
python -m cordwood.drills whole --crashes 1000000
python -m cordwood.drills soak --minutes 60      only when it is named
python -m cordwood.drills journal-crash --seed 7 --disks 1
python -m cordwood.drills broker-model --seed 7 --histories 1
python -m cordwood.drills spark-sink-kill --kills 1
"""

import argparse
import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing import Pool
from secrets import randbits

import pyarrow as pa

from cordwood.drills import journal_crash, journal_kill, journal_power, land_kill, outbox_kill, soak, spark_sink_kill
from cordwood.drills.broker_model.history import Violation, run_history
from cordwood.drills.broker_model.tally import NAMED, Tally
from cordwood.drills.whole import tally as whole_tally
from cordwood.drills.whole import world as whole

CRASHES = 100_000
HISTORIES = 20_000
KILLS = 200
POWER_CUTS = 50
SPARK_KILLS = 10  # at each place; a driver takes ten seconds to start


def drill_journal_crash(seed: int, disks: int | None, jobs: int) -> list[str]:
    """Crash simulated journals until 100,000 crashes are done; return what went wrong."""
    disks = disks or -(-CRASHES // journal_crash.ROUNDS_OF_ONE_DISK)
    tally = journal_crash.Tally()
    wrong: list[str] = []
    begun = time.monotonic()
    with Pool(jobs) as pool:
        for number, result in enumerate(pool.imap_unordered(_crash_disk, range(seed, seed + disks), chunksize=8), 1):
            if isinstance(result, str):
                wrong.append(result)
            else:
                tally.add(result)
            if number % 500 == 0:
                print(f"  … {tally.rounds} crashes, {len(wrong)} wrong", file=sys.stderr, flush=True)
    seconds = time.monotonic() - begun
    rate = tally.rounds / seconds
    print(f"  {tally.rounds} crashes in {seconds:.0f} s ({rate:.0f}/s), {tally.appends} appends, ", end="")
    print(f"{tally.operations} disk operations, seeds {seed} to {seed + disks - 1}")
    for phase, count in tally.phases.most_common():
        print(f"  {count / max(1, tally.rounds):6.1%} of the crashes fell into {phase}")
    print("  " + ", ".join(f"{event} {count}" for event, count in sorted(tally.events.items())))
    if disks * journal_crash.ROUNDS_OF_ONE_DISK >= 1000:
        wrong += [f"under 1 % of the crashes fell into {phase}" for phase in tally.missing()]
    return wrong


def _crash_disk(seed: int) -> journal_crash.Tally | str:
    logging.disable(logging.WARNING)  # each cut warns, and a drill makes thousands
    try:
        return journal_crash.run_disk(seed)
    except journal_crash.Violation as violation:
        return f"{violation}: python -m cordwood.drills journal-crash --seed {seed} --disks 1"


def drill_journal_kill(seed: int, disks: int | None, jobs: int) -> list[str]:
    """Kill a real appending process with SIGKILL, 200 times; return what went wrong."""
    logging.disable(logging.WARNING)
    report = journal_kill.run(seed, disks or KILLS)
    print(f"  {report.kills} kills, {report.acknowledged} acknowledged frames, {report.torn} torn tails, seed {seed}")
    return report.wrong


def drill_journal_power(seed: int, disks: int | None, jobs: int) -> list[str]:
    """Cut the power of a real ext4 under an appending process, 50 times; return what went wrong."""
    logging.disable(logging.ERROR)  # each cut ends in one
    reason = journal_power.reason_to_skip()
    if reason is not None:
        print(f"  skipped: {reason}")
        return []
    report = journal_power.run(seed, disks or POWER_CUTS)
    print(
        f"  {report.kills} power cuts, {report.acknowledged} acknowledged frames, "
        f"{report.torn} torn tails, seed {seed}"
    )
    return report.wrong


def drill_broker_model(seed: int, histories: int | None, jobs: int) -> list[str]:
    """Live through 20,000 histories of broker and model; return what went wrong."""
    histories = histories or HISTORIES
    tally = Tally()
    wrong: list[str] = []
    begun = time.monotonic()
    with Pool(jobs) as pool:
        for number, result in enumerate(pool.imap_unordered(_live, range(seed, seed + histories), chunksize=16), 1):
            if isinstance(result, str):
                wrong.append(result)
            else:
                tally.add(result)
            if number % 1000 == 0:
                print(f"  … {number} histories, {len(wrong)} wrong", file=sys.stderr, flush=True)
    seconds = time.monotonic() - begun
    print(
        f"  {histories} histories in {seconds:.0f} s ({histories / seconds:.0f}/s), {tally.frames} frames, ", end=""
    )
    print(f"{tally.openings} openings, seeds {seed} to {seed + histories - 1}")
    for what, count in tally.reached.most_common():
        print(f"  {count / max(1, tally.histories):6.1%} of the histories reached {what}")
    if histories >= 1000:
        wrong += [f"under 1 % of the histories reached {what}" for what in tally.missing()]
    elif histories > 1:
        print("  fewer than 1,000 histories: the shares are not judged; named are " + ", ".join(NAMED))
    return wrong


def _live(seed: int) -> Tally | str:
    logging.disable(logging.WARNING)  # each cut warns, and a drill makes thousands
    if gc.isenabled():
        gc.disable()  # a quarter of the time; what a history leaves is collected behind it
    try:
        return run_history(seed)
    except Violation as violation:
        return f"{violation}: python -m cordwood.drills broker-model --seed {seed} --histories 1"
    finally:
        if seed % 64 == 0:
            gc.collect()


def drill_whole(seed: int, worlds: int | None, jobs: int, crashes: int = CRASHES) -> list[str]:
    """Crash the whole broker 100,000 times, with its tier, outboxes and clients; return what went wrong."""
    most = worlds or crashes  # a world has more than one crash
    tally = whole_tally.Tally()
    wrong: list[str] = []
    begun = time.monotonic()
    done = 0
    with Pool(jobs) as pool:
        for result in pool.imap_unordered(_live_whole, range(seed, seed + most), chunksize=4):
            done += 1
            if isinstance(result, str):
                wrong.append(result)
                print(f"  WRONG {result}", file=sys.stderr, flush=True)  # at once: a long run may be cut short
            else:
                tally.add(result)
            if done % 500 == 0:
                rate = tally.crashes / (time.monotonic() - begun)
                text = f"  … {tally.crashes} crashes in {done} worlds ({rate:.0f}/s), {len(wrong)} wrong"
                print(text, file=sys.stderr, flush=True)
            if worlds is None and tally.crashes >= crashes:
                pool.terminate()
                break
    seconds = time.monotonic() - begun
    print(
        f"  {tally.crashes} crashes of the whole broker and {tally.worker_crashes} of workers in {done} worlds, "
        f"{seconds:.0f} s ({tally.crashes / seconds:.0f} crashes/s), {tally.openings} openings that served, "
        f"{tally.messages} messages checked, seeds {seed} to {seed + done - 1}"
    )
    _print_shares(tally)
    if done == 1 and not wrong:
        print(f"  the trace of this world is {tally.trace}")
    elif done >= whole_tally.JUDGED:
        wrong += [f"too seldom: {line}" for line in tally.missing()]
    else:
        print(f"  fewer than {whole_tally.JUDGED} worlds: the shares are not judged")
    return wrong


def _print_shares(tally: whole_tally.Tally) -> None:
    for title, names in (
        ("of the broker's crashes fell into", whole_tally.PHASES),
        ("of the workers' crashes fell into", whole_tally.WORKER_PHASES),
        ("of the worlds had", {**whole_tally.FAULTS, **whole_tally.DEEDS}),
    ):
        for name in sorted(names, key=lambda name: -tally.share(name)):
            count = tally.phases[name] or tally.happened[name]
            print(f"  {tally.share(name):6.1%} {title} {name} ({count})")


def _live_whole(seed: int) -> whole_tally.Tally | str:
    logging.disable(logging.ERROR)  # disks fail by the thousand here, and each says so
    if gc.isenabled():
        gc.disable()
        gc.freeze()  # what every world uses need not be gone through again and again
        pa.set_cpu_count(1)  # its threads would only wait for each other: the objects have a few rows
    try:
        return whole.run_world(seed)
    except whole.Violation as violation:
        return f"{violation}: python -m cordwood.drills whole --seed {seed} --worlds 1"
    finally:
        if seed % 32 == 0:
            gc.collect()


def drill_outbox_kill(seed: int, kills: int | None, jobs: int) -> list[str]:
    """Kill workers that append and send, and the broker under them, 200 times; return what went wrong."""
    logging.disable(logging.WARNING)
    report = outbox_kill.run(
        seed, kills or KILLS, tell=lambda line: print(f"  … {line}", file=sys.stderr, flush=True)
    )
    print(
        f"  {report.kills} workers and {report.broker_kills} brokers killed, "
        f"{report.acknowledged} acknowledged events, {report.stored} stored, seed {seed}"
    )
    return report.wrong


def drill_spark_sink_kill(seed: int, kills: int | None, jobs: int) -> list[str]:
    """Kill driver, broker and executors of a streaming query, 10 times at each place; return what went wrong."""
    if _cannot_run_spark():
        return []
    kills = kills or SPARK_KILLS
    report = spark_sink_kill.run(kills, tell=lambda line: print(f"  … {line}", file=sys.stderr, flush=True))
    return report.wrong + _counted(report.kills, spark_sink_kill.POINTS, kills, report.messages)


def drill_land_kill(seed: int, kills: int | None, jobs: int) -> list[str]:
    """Kill a driver that lands a topic, 10 times at each step; return what went wrong."""
    if _cannot_run_spark():
        return []
    kills = kills or SPARK_KILLS
    report = land_kill.run(kills)
    return report.wrong + _counted(report.kills, land_kill.STEPS, kills, report.messages)


def _cannot_run_spark() -> bool:
    reason = spark_sink_kill.reason_to_skip()
    if reason is not None:
        print(f"  skipped: {reason}")
    return reason is not None


def _counted(hits: Counter[str], places: Sequence[str], kills: int, messages: int) -> list[str]:
    """Print how often each place was hit; return those that were not hit often enough."""
    print(f"  {hits.total()} kills, {messages} messages: " + ", ".join(f"{place} {hits[place]}" for place in places))
    return [f"{place!r} was hit {hits[place]} times, not {kills}" for place in places if hits[place] != kills]


DRILLS: dict[str, Callable[[int, int | None, int], list[str]]] = {
    "journal-crash": drill_journal_crash,
    "journal-kill": drill_journal_kill,
    "journal-power": drill_journal_power,
    "broker-model": drill_broker_model,
    "whole": drill_whole,
    "outbox-kill": drill_outbox_kill,
    "spark-sink-kill": drill_spark_sink_kill,
    "land-kill": drill_land_kill,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cordwood.drills", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "name", nargs="?", choices=sorted([*DRILLS, "soak"]), help="one drill (default: all but soak)"
    )
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: drawn, and printed)")
    parser.add_argument(
        "--disks",
        "--histories",
        "--kills",
        "--worlds",
        type=int,
        default=None,
        help="how many disks, histories, kills or worlds",
    )
    parser.add_argument("--crashes", type=int, default=CRASHES, help="of the whole broker (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to soak (default: %(default)s)")
    parser.add_argument("--out", default="soak", help="where the soak's JSON and SVG go (default: %(default)s.*)")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else randbits(40)
    if options.name == "soak":
        return soak.main(options.minutes, options.out)
    failed = False
    for name in [options.name] if options.name else DRILLS:
        print(f"{name}: seed {seed}", flush=True)
        if name == "whole":
            wrong = drill_whole(seed, options.disks, options.jobs, options.crashes)
        else:
            wrong = DRILLS[name](seed, options.disks, options.jobs)
        for line in wrong[:20]:
            print(f"  WRONG {line}")
        print(f"{name}: {'failed' if wrong else 'passed'}", flush=True)
        failed = failed or bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
