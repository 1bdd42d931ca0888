"""What can go wrong, by who has to act.

    CordwoodError
    ├── Refused        the request is at fault: tell the sender, do not try again as it is
    │   ├── NotFound       what it names is not there
    │   ├── Conflict       it does not go with what is there
    │   └── OtherVersion   the bytes are whole, but another version wrote them
    ├── Unavailable    the moment is at fault: the same request may succeed later
    │   ├── Preparing      room is being made at this very moment
    │   ├── Full           the disk has no room; nothing was numbered or written
    │   ├── Limited        a limit is reached that others can lift by consuming
    │   └── Locked         another process has the directory
    └── Damaged        the bytes are at fault: a person must look

Every error is one sentence that says what to do; the facts are in fields. `exit_code` is what the command
line ends with.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class CordwoodError(Exception):
    """Any error that Cordwood raises on purpose."""

    exit_code = 1


class Refused(CordwoodError):
    """The request cannot be served as it is."""

    exit_code = 2


class NotFound(Refused):
    """What the request names is not there."""

    exit_code = 1


class Conflict(Refused):
    """The request does not go with what is there: another owner, another sequence, other settings.

    `facts` are what a program needs to go on, such as the sequence that was expected.
    """

    exit_code = 1

    def __init__(self, message: str, /, **facts: int | str):  # a fact may have any name
        super().__init__(message)
        self.facts = facts


class OtherVersion(Refused):
    """The bytes are whole, but another version of Cordwood wrote them."""

    exit_code = 1


class Unavailable(CordwoodError):
    """Not now: nothing was acknowledged, the same request may succeed later."""

    exit_code = 75


class Preparing(Unavailable):
    """The next segment is not ready yet; nothing was numbered. Try again when room is made."""


class Full(Unavailable):
    """The disk has no room for this; nothing was numbered or written. Free some space."""


class Limited(Unavailable):
    """A limit is reached; `reason` is its name, and after `retry_after_ms` it is worth trying again."""

    def __init__(self, message: str, reason: str, retry_after_ms: int = 1_000):
        super().__init__(message)
        self.reason = reason
        self.retry_after_ms = retry_after_ms


class Locked(Unavailable):
    """Another process works on this directory."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A place where bytes that were acknowledged are not what was written.

    `first` and `end` are the LSNs that cannot be read (empty when no frame is lost). `proof` says how we know
    that they had been synced; `remedy` says what mends it.
    """

    file: str
    position: int
    first: int
    end: int
    reason: str
    proof: str
    remedy: str

    def __str__(self) -> str:
        if self.end > self.first + 1:
            lost = f"LSN {self.first} to {self.end - 1} cannot be read"
        elif self.end > self.first:
            lost = f"LSN {self.first} cannot be read"
        else:
            lost = f"at LSN {self.first}, no frame is lost"
        return f"{self.file}, byte {self.position}: {self.reason} ({lost}; {self.proof})"


class Damaged(CordwoodError):
    """Acknowledged data does not read as it was written; nothing was changed."""

    exit_code = 65

    def __init__(self, damages: Sequence[Damage]):
        self.damages = tuple(damages)
        first = self.damages[0]
        more = f" and {len(self.damages) - 1} more place(s)" if len(self.damages) > 1 else ""
        super().__init__(f"damaged: {first}{more}. {first.remedy}")
