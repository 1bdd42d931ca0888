"""Where the claims to a store are written, by what `--metadata` says."""

import os

from cordwood.errors import Refused
from cordwood.machine.objects.store import Objects
from cordwood.tier import etcd
from cordwood.tier.claim import Claims, SteadyClock, Terms, Wait, sleep
from cordwood.tier.claims_in_etcd import EtcdClaims
from cordwood.tier.claims_in_store import StoreClaims


def open_claims(
    metadata: str, objects: Objects, clock: SteadyClock, terms: Terms | None = None, wait: Wait = sleep
) -> Claims:
    """Return the claims to a store: in itself ("store"), or in an etcd. Nothing is asked yet.

    `clock` is a `BootClock`. A `wait` that raises ends a `take` that waits.
    """
    if metadata == "store":
        return StoreClaims(objects, clock, terms, wait)
    if metadata.startswith("etcd:"):
        return EtcdClaims(etcd.Etcd(metadata, os.environ), objects, clock, terms, wait)
    raise Refused(f"metadata {metadata[:80]!r} is neither 'store' nor {etcd.ALLOWED}")
