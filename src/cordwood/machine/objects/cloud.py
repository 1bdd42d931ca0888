"""S3, Google Cloud Storage and Azure, through obstore, which is imported when the first one is opened.

    call                       it gives up when                                and tries again
    size, list, delete         `answer_s` pass without the whole answer        within `again_s`
    get                        `answer_s` pass without a byte                  within `again_s`
    put                        `put_s` pass, and a second for each             only if it was not sent, or the
                               `put_bytes_per_s`                               server said that it failed

Together: a store that cannot be reached is unavailable after about 10 s at most.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from cordwood.errors import Refused
from cordwood.machine.disk import Buffer
from cordwood.machine.objects.store import (
    Entry,
    ObjectMissing,
    StoreUnavailable,
    check_name,
    check_prefix,
    check_range,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

DELETE_BATCH = 1000  # S3 takes so many in one request
WORDS = 300  # of what the store said, for a person to read
CONFLICTS = 4  # tries to put against a deletion or another put of the same name
# These say that the whole bucket is missing, and not the object.
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to wait for a store."""

    connect_s: float = 3.0
    answer_s: float = 4.0
    again_s: float = 5.0  # a call that began longer ago is not tried again
    tries_again: int = 2
    put_s: float = 8.0
    put_bytes_per_s: int = 1 << 20  # slower than this is as good as down


class CloudObjects:
    """Objects of a cloud. `make` returns obstore's store for these client and retry options."""

    def __init__(self, url: str, make: Callable[[dict[str, Any], dict[str, Any]], "ObjectStore"], limits: Limits):
        import obstore
        from obstore import exceptions

        self.url = url
        self._make = make
        self._limits = limits
        self._obstore = obstore
        self._taken = exceptions.AlreadyExistsError
        self._errors = (exceptions.BaseError, OSError, ValueError)
        self._asking = self._store(timeout=limits.answer_s)
        self._getting = self._store(read_timeout=limits.answer_s)
        self._putting: dict[float, ObjectStore] = {}

    def put(self, name: str, data: Buffer) -> bool:
        check_name(name)
        store = self._store_for_put(len(data))
        for _ in range(CONFLICTS):
            try:
                self._obstore.put(store, name, memoryview(data), mode="create")
                return True
            except self._taken:
                # S3 also says so when it could not decide between us and another put or a deletion at that moment.
                with contextlib.suppress(ObjectMissing):
                    self.size(name)
                    return False
            except self._errors as error:
                raise self._unavailable(error) from error
        raise StoreUnavailable(self.url, f"{name} is put and deleted by others all the time")

    def get(self, name: str, first: int = 0, end: int | None = None) -> Buffer:
        check_name(name)
        check_range(first, end)
        if end == first:
            return memoryview(b"")
        try:
            if first == 0 and end is None:
                return memoryview(self._obstore.get(self._getting, name).bytes())
            options = {"range": {"offset": first} if end is None else (first, end)}
            return memoryview(self._obstore.get(self._getting, name, options=options).bytes())  # type: ignore[arg-type]
        except FileNotFoundError as error:
            raise self._missing(name, error) from error
        except self._errors as error:
            if "416" in str(error) and first >= self.size(name):
                return memoryview(b"")
            raise self._unavailable(error) from error

    def size(self, name: str) -> int:
        try:
            return int(self._obstore.head(self._asking, check_name(name))["size"])
        except FileNotFoundError as error:
            raise self._missing(name, error) from error
        except self._errors as error:
            raise self._unavailable(error) from error

    def list(self, prefix: str) -> Iterator[Entry]:
        """Return the objects in a folder and below it, in the order of their names.

        The listing is whole before the first is returned: not every store that speaks S3 keeps that order.
        """
        check_prefix(prefix)
        found: list[Entry] = []
        try:
            for chunk in self._obstore.list(self._asking, prefix or None, chunk_size=1000):
                for meta in chunk:
                    modified_ms = int(meta["last_modified"].timestamp() * 1000)
                    found.append(Entry(meta["path"], int(meta["size"]), modified_ms))
        except self._errors as error:
            raise self._unavailable(error) from error
        return iter(sorted(found))

    def delete(self, names: Iterable[str]) -> None:
        for batch in _batches(map(check_name, names)):
            try:
                self._obstore.delete(self._asking, batch)
            except FileNotFoundError:
                self._delete_each(batch)  # not every cloud is fine with a missing one
            except self._errors as error:
                raise self._unavailable(error) from error

    def _delete_each(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._obstore.delete(self._asking, [name])
            except FileNotFoundError as error:
                if not isinstance(self._missing(name, error), ObjectMissing):
                    raise self._unavailable(error) from error
            except self._errors as error:
                raise self._unavailable(error) from error

    def _store(self, **timeouts: float) -> "ObjectStore":
        limits = self._limits
        client: dict[str, Any] = {key: timedelta(seconds=value) for key, value in timeouts.items()}
        client["connect_timeout"] = timedelta(seconds=limits.connect_s)
        if "timeout" not in client:
            client["timeout"] = timedelta(days=1)  # otherwise it would be 30 s for the whole object
        retry = {
            "max_retries": limits.tries_again,
            "retry_timeout": timedelta(seconds=limits.again_s),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=1),
                "base": 2,
            },
        }
        return self._make(client, retry)

    def _store_for_put(self, size: int) -> "ObjectStore":
        """Return a store that waits as long as so many bytes may take; the time doubles, so there are few stores."""
        allowed_s = self._limits.put_s
        while allowed_s < self._limits.put_s + size / self._limits.put_bytes_per_s:
            allowed_s *= 2
        if allowed_s not in self._putting:
            self._putting[allowed_s] = self._store(timeout=allowed_s)
        return self._putting[allowed_s]

    def _missing(self, name: str, error: Exception) -> ObjectMissing | StoreUnavailable:
        if any(words in str(error) for words in NO_BUCKET):
            return self._unavailable(error)
        return ObjectMissing(name, self.url)

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(self.url, in_words(error))


def in_words(error: Exception) -> str:
    """Return what an error of obstore says, in one line, without what a query may carry: signatures are secrets."""
    text = re.split(r"\n\s*Debug source", str(error))[0]
    said = re.search(r"<Code>(.*?)</Code>\s*<Message>(.*?)</Message>", text, re.DOTALL)
    if said:
        text = f"{text[: text.index('<')]}{said[1]}, {said[2]}"
    return " ".join(re.sub(r"\?\S*", "", text).split())[:WORDS] or type(error).__name__


def _batches(names: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(names, DELETE_BATCH)):
        yield batch


def open_cloud(
    scheme: str, bucket: str, prefix: str, settings: Mapping[str, str], limits: Limits | None = None
) -> CloudObjects:
    """Open a bucket. It is not asked anything yet.

    `settings` go before what obstore finds in the environment. Plain http is spoken only with an endpoint that
    says so.
    """
    from obstore.store import AzureStore, GCSStore, S3Store

    kind: Any = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[scheme]
    rest = dict(settings)
    plain = rest.get("endpoint", "").startswith("http://")
    if scheme == "gs" and "endpoint" in rest:
        rest["base_url"] = rest.pop("endpoint")

    def make(client: dict[str, Any], retry: dict[str, Any]) -> "ObjectStore":
        options = {**client, "allow_http": plain}
        store: ObjectStore = kind(
            bucket, prefix=prefix or None, config=rest, client_options=options, retry_config=retry
        )
        return store

    url = f"{scheme}://{bucket}/{prefix}".rstrip("/")
    try:
        return CloudObjects(url, make, limits or Limits())
    except Exception as error:
        raise Refused(f"{url} cannot be opened: {in_words(error)}") from error
