"""A store by its URL."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from cordwood.errors import Refused
from cordwood.machine.clock import Clock, SystemClock
from cordwood.machine.objects import credentials
from cordwood.machine.objects.directory import open_directory
from cordwood.machine.objects.memory import MemoryObjects
from cordwood.machine.objects.store import Objects, check_name

ALLOWED = "a path, file:///dir, memory:, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,220}")
_CLOUDS: dict[str, Callable[[credentials.Environment], dict[str, str]]] = {
    "s3": credentials.of_s3,
    "gs": credentials.of_google,
    "az": credentials.of_azure,
}


def open_objects(url: str, environment: credentials.Environment | None = None, clock: Clock | None = None) -> Objects:
    """Open a store, or refuse a URL that is none. A directory is made; a bucket has to be there.

    Keys and endpoints come from the environment, as each cloud's own tools take them; never from the URL, since it
    is shown.
    """
    found = _SCHEME.fullmatch(url)
    if found is None:
        if not url or "\0" in url:
            raise Refused(f"the store needs a name: {ALLOWED}")
        return open_directory(Path(url))
    scheme, rest = found[1].lower(), found[2]
    if scheme == "memory" and not rest.strip("/"):
        return MemoryObjects(clock or SystemClock())
    if scheme == "file":
        return open_directory(_file_path(rest))
    if scheme in _CLOUDS:
        bucket, prefix = _bucket_and_prefix(scheme, rest)
        from cordwood.machine.objects.cloud import open_cloud

        return open_cloud(scheme, bucket, prefix, _CLOUDS[scheme](os.environ if environment is None else environment))
    raise Refused(f"{scheme}: is no store that we know; give {ALLOWED}")


def _file_path(rest: str) -> Path:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise Refused(f"file://{host} names a host; a directory here is file:///dir")
        rest = slash + path
    path = unquote(rest)
    if not path or "\0" in path:
        raise Refused(f"the URL names no directory; give {ALLOWED}")
    return Path(path)


def _bucket_and_prefix(scheme: str, rest: str) -> tuple[str, str]:
    if "@" in rest:
        raise Refused(f"the {scheme}:// URL has credentials in it; they belong into the environment")
    bucket, _, prefix = rest.removeprefix("//").partition("/")
    prefix = prefix.strip("/")
    if not rest.startswith("//") or not _BUCKET.fullmatch(bucket) or set("?#") & set(prefix):
        said = rest.partition("?")[0][:80]  # what is behind it may be a key
        raise Refused(f"{scheme}:{said} is no bucket; give {ALLOWED}")
    if prefix:
        check_name(prefix)
    return bucket, prefix
