"""The object store: names and bytes that are put once and never changed.

    store        what we ask of any store, and its two errors
    directory    a directory that survives a power cut
    tree         the filesystem under it, so that a test may cut the power at any call
    memory       for tests and `--memory`
    cloud        S3, Google Cloud Storage and Azure
    credentials  what the environment says about each cloud
    opening      a store by its URL

`cordwood.sim.objects` is one that fails in every way that these may.
"""

from cordwood.machine.objects.opening import open_objects
from cordwood.machine.objects.store import Entry, ObjectMissing, Objects, StoreUnavailable

__all__ = ["Entry", "ObjectMissing", "Objects", "StoreUnavailable", "open_objects"]
