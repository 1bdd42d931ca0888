"""The drills by name, in the order in which they are run, each with the promise that it tries to make false."""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from cordwood.drills.field.stage import Stage


class Entry(NamedTuple):
    """A drill: the module that has it, and what it does, in one line."""

    module: str
    about: str

    @property
    def run(self) -> Callable[[Stage], None]:
        """The drill itself; loaded when it is wanted."""
        found: Callable[[Stage], None] = import_module(f"cordwood.drills.field.{self.module}").run
        return found

    @property
    def text(self) -> str:
        """What the drill does and expects, in full."""
        return (import_module(f"cordwood.drills.field.{self.module}").__doc__ or "").strip()


ROSTER = {
    "crash": Entry("crash", "SIGKILL at random moments while messages are published and acked"),
    "many-restarts": Entry("many_restarts", "SIGKILL while it recovers, again and again"),
    "torn": Entry("torn", "the last write cut at random bytes"),
    "corrupt": Entry("corrupt", "bits flipped in the middle and in the tail of a stopped journal"),
    "disk-full": Entry("disk_full", "a small filesystem fills up and is freed again"),
    "slow-disk": Entry("slow_disk", "every sync takes 50 ms longer"),
    "sync-error": Entry("sync_error", "every sync fails from some moment on"),
    "power-loss": Entry("power_loss", "an ext4 loses its power under a whole broker"),
    "disconnect": Entry("disconnect", "connections cut at random bytes"),
    "store-outage": Entry("store_outage", "the object store takes nothing for a while"),
    "etcd-lease": Entry("etcd_lease", "a broker is cut off from etcd and another takes its store"),
    "clock-jump": Entry("clock_jump", "the time of day jumps by hours, back and forth"),
}
