"""A process that owns a store, renews its claim, and says when it would have acknowledged something.

python -m tests.real.claimant URL METADATA
→ took <epoch> · acknowledged <milliseconds by the boot clock> · … · lost
"""

import sys
import threading
import time

from cordwood.machine.boot_clock import BootClock
from cordwood.machine.objects import StoreUnavailable, open_objects
from cordwood.tier.claim import Claim, ClaimLost, Terms
from cordwood.tier.claiming import open_claims

TERMS = Terms(renew_ms=100, hold_ms=1_000, lapse_ms=2_000, patience_ms=15_000, look_ms=50)


def renew(claim: Claim, ended: threading.Event) -> None:
    while True:
        time.sleep(TERMS.renew_ms / 1000)
        try:
            claim.renew()
        except StoreUnavailable:
            pass
        except ClaimLost:
            ended.set()
            return


def main(url: str, metadata: str) -> None:
    clock = BootClock()
    claim = open_claims(metadata, open_objects(url), clock, TERMS).take("the claimant")
    print("took", claim.epoch, flush=True)
    ended = threading.Event()
    threading.Thread(target=renew, args=(claim, ended), daemon=True).start()
    while not ended.is_set():
        # The time is taken before the question: an acknowledgement under way is not late.
        now_ms = clock.monotonic_ms()
        if claim.holds():
            print("acknowledged", now_ms, flush=True)
        time.sleep(0.005)
    print("lost", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
