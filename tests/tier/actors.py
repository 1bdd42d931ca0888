"""Several who share a store and a clock, one step at a time, in an order that a seed decides.

Each actor is a thread, but only one runs; it gives way before every call of the store and whenever it waits. When all
wait, time passes.
"""

import threading
from collections.abc import Callable
from random import Random

from cordwood.sim.clock import SimClock
from cordwood.sim.objects import SimObjects


class Stop(BaseException):
    """The actor ends here, as a process that is killed does."""


class Stage:
    def __init__(self, seed: int, objects: SimObjects, clock: SimClock) -> None:
        self.random = Random(seed)
        self.clock = clock
        self._turn = threading.Condition()
        self._runs: int | None = None
        self._wakes: dict[int, int] = {}  # actor → when it wants to go on
        self._over = False
        self._failed: list[BaseException] = []
        objects.watch = lambda operation, name: self.wait(0)

    def wait(self, duration_ms: int) -> None:
        """Give way; called by an actor."""
        me = threading.get_ident()
        with self._turn:
            if self._runs != me:
                return  # the test itself, before or after the play
            self._wakes[me] = self.clock.monotonic_ms() + duration_ms
            self._runs = None
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._runs == me)
            if self._over:
                raise Stop

    def play(self, actors: list[Callable[[], None]], steps: int, always: Callable[[], None]) -> None:
        """Run the actors for so many steps, checking what is always true after each, and end them."""
        threads = [threading.Thread(target=self._act, args=(actor,)) for actor in actors]
        for thread in threads:
            thread.start()
        with self._turn:
            self._turn.wait_for(lambda: len(self._wakes) == len(threads))
        try:
            for _ in range(steps):
                self._step()
                always()
        finally:
            self._over = True
            while self._wakes:
                self._step()
            for thread in threads:
                thread.join()
        if self._failed:
            raise self._failed[0]

    def _step(self) -> None:
        with self._turn:
            if self._failed and not self._over:
                raise self._failed[0]
            now_ms = self.clock.monotonic_ms()
            ready = sorted(actor for actor, wakes_ms in self._wakes.items() if wakes_ms <= now_ms)
            if not ready:
                self.clock.pass_ms(min(self._wakes.values()) - now_ms)
                return
            # By the order in which they came, since thread numbers differ from run to run.
            chosen = self.random.choice([actor for actor in self._wakes if actor in ready])
            self._wakes.pop(chosen)
            self._runs = chosen
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._runs is None)

    def _act(self, actor: Callable[[], None]) -> None:
        me = threading.get_ident()
        with self._turn:
            self._wakes[me] = 0
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._runs == me)
        try:
            if not self._over:
                actor()
        except Stop:
            pass
        except BaseException as error:
            self._failed.append(error)
        with self._turn:
            self._runs = None
            self._turn.notify_all()
