"""A process that appends frames and says which are durable; run by the tests under strace or on a small disk.

python -m tests.real.appender DIR FRAMES SEGMENT_BYTES
"""

import sys
from pathlib import Path

from cordwood.errors import CordwoodError
from cordwood.journal.fold import Blank
from cordwood.journal.limits import Limits
from cordwood.journal.opening import open_journal
from cordwood.machine.disk import RealDirectory


def main() -> None:
    directory, frames, segment_bytes = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    try:
        journal = open_journal(RealDirectory(directory), Blank(), Limits(segment_bytes=segment_bytes))
        print("open", journal.end, flush=True)
        for _ in range(frames):
            print("durable", journal.write([b"%d " % journal.end + bytes(3000)]), flush=True)
    except CordwoodError as error:
        print("error", type(error).__name__, error, flush=True)
    except OSError as error:
        print("oserror", error, flush=True)


main()
