"""The contest: what every system is asked to do, in the same run, on the same disk.

produce            100 B and 1 KiB, in batches of 100, 1,000 and 10,000
produce in a loop  a call for each message
64 callers         single messages, each waited for
consume            in batches of 10,000, and one by one
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from cordwood.bench import race
from cordwood.bench.load import Load, make_messages
from cordwood.bench.peers.peer import Peer
from cordwood.bench.race import Race

BATCHES = (100, 1000, 10_000)
CALLERS = 64
SMALL, LARGE = 100, 1024
LARGE_MOST = 400_000  # messages of 1 KiB in one lap

LOOP = "100 B in a loop"
SINGLES = f"{CALLERS} callers"
TAKE_BATCHES = f"consume, batches of {BATCHES[-1]:,}"
TAKE_EACH = "consume, one by one"


@dataclass(frozen=True, slots=True)
class Loads:
    """What every system is given."""

    small: Load
    large: Load


def make_loads(seconds: float) -> Loads:
    """Return loads of which a lap takes so long."""
    return Loads(Load(make_messages(SMALL), seconds), Load(make_messages(LARGE), seconds, LARGE_MOST))


def batches_name(message_bytes: int, batch: int) -> str:
    """Return the name of the race that produces such batches."""
    return f"{'1 KiB' if message_bytes == LARGE else f'{message_bytes} B'} × {batch:,}"


def race_names() -> list[str]:
    """Return the names of all races, in their order."""
    batches = [batches_name(message_bytes, batch) for message_bytes in (SMALL, LARGE) for batch in BATCHES]
    return [*batches, LOOP, SINGLES, TAKE_BATCHES, TAKE_EACH]


def races(
    systems: Mapping[str, Peer],
    loads: Loads,
    rounds: int,
    probe: Callable[[], float],
    tell: Callable[[str], None],
    *,
    only: Collection[str] = (),
    failed: Callable[[str, Exception], None] | None = None,
) -> Iterator[Race]:
    """Yield every race, or only these, with all systems in it; without a confirm there is nothing to wait for."""
    actions: dict[str, Callable[[Peer], float]] = {}
    for load in (loads.small, loads.large):
        for batch in BATCHES:
            actions[batches_name(load.message_bytes, batch)] = partial(_produce, load=load, batch=batch)
    actions[LOOP] = lambda system: system.produce_loop(loads.small)
    actions[SINGLES] = lambda system: system.singles(loads.small, CALLERS)
    actions[TAKE_BATCHES] = lambda system: system.consume_batches(loads.small, BATCHES[-1])
    actions[TAKE_EACH] = lambda system: system.consume_each(loads.small)
    for name in only or race_names():
        able = {label: system for label, system in systems.items() if system.mode.confirms or name != SINGLES}
        entrants = {label: partial(actions[name], system) for label, system in able.items()}
        yield race.run(name, "msgs/s", entrants, rounds, probe, tell, failed)


def _produce(system: Peer, load: Load, batch: int) -> float:
    return system.produce_batches(load, batch)
