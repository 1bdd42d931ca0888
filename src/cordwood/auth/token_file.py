"""The file with the tokens: its bytes, how it is read and how it is changed.

    {"version":1,"tokens":[{"id":…,"name":…,"hash":…,"rights":[["produce","orders"],…],"created_at":…,"expires_at":…}]}␊

No secret is in it. It is replaced as a whole (temporary file, fsync, rename, fsync of the directory), so that whoever
reads it finds the old or the new one. A file without tokens says that nobody may come in: revoking the last token
leaves one, because to be without tokens means that everybody may.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from cordwood.auth.token import Token, check
from cordwood.errors import Conflict, NotFound, OtherVersion, Refused
from cordwood.machine.disk import make_directory, sync_path

NAME = "tokens.json"
VERSION = 1
MOST_TOKENS = 10_000
MOST_BYTES = 16 << 20
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class _File(Struct, frozen=True):
    version: int
    tokens: tuple[Token, ...]


class _AnyVersion(Struct, frozen=True):
    version: int


def encode(tokens: tuple[Token, ...]) -> bytes:
    """Return the bytes of a file with these tokens."""
    return msgspec.json.encode(_File(VERSION, tokens)) + b"\n"


def decode(data: bytes, where: str) -> tuple[Token, ...]:
    """Return the tokens in a file's bytes; refuse what is no such file, naming where it is."""
    try:
        version = msgspec.json.decode(data, type=_AnyVersion).version
        if version != VERSION:
            raise OtherVersion(f"{where} is of version {version}; this program reads version {VERSION}")
        tokens = msgspec.json.decode(data, type=_File).tokens
        if len(tokens) > MOST_TOKENS:
            raise Refused(f"{len(tokens)} tokens, at most {MOST_TOKENS} are accepted")
        for token in tokens:
            check(token)
        for what in ("id", "name"):
            if len({getattr(token, what) for token in tokens}) != len(tokens):
                raise Refused(f"two tokens have the same {what}")
    except OtherVersion:
        raise
    except (msgspec.MsgspecError, RecursionError, Refused) as error:
        raise Refused(f"{where} is no file of tokens: {error}") from None
    return tokens


class TokenFile:
    """The tokens of one broker, on disk. Any number of processes may read it; those that change it take turns."""

    def __init__(self, path: Path):
        self.path = path

    def read(self) -> tuple[Token, ...] | None:
        """Return the tokens; None when there is no file. Refuses a file that others than its owner may change."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise Refused(f"{self.path} is not a file")
                if found.st_mode & OTHERS_MAY_WRITE:
                    raise Refused(f"{self.path} may be changed by others than its owner: chmod 600 {self.path}")
                with open(descriptor, "rb", closefd=False) as file:
                    data = file.read(MOST_BYTES + 1)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"{self.path}: {error.strerror}") from error
        if len(data) > MOST_BYTES:
            raise Refused(f"{self.path} has more than {MOST_BYTES} bytes")
        return decode(data, str(self.path))

    def stamp(self) -> tuple[int, ...] | None:
        """Return what changes whenever the file does; None when there is none."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode

    def add(self, token: Token) -> None:
        """Keep one more token, durably. Raises Conflict when its name is taken."""
        with self._alone():
            tokens = self.read() or ()
            if any(one.name == token.name for one in tokens):
                raise Conflict(f"there is a token {token.name!r} already; revoke it first, or take another name")
            if len(tokens) >= MOST_TOKENS:
                raise Conflict(f"there are {MOST_TOKENS} tokens already; revoke some first")
            self._write((*tokens, token))

    def remove(self, name_or_id: str) -> Token:
        """Forget a token, durably, and return it. Raises NotFound."""
        with self._alone():
            tokens = self.read() or ()
            gone = next((token for token in tokens if name_or_id in (token.name, token.id)), None)
            if gone is None:
                raise NotFound(f"there is no token {name_or_id[:80]!r} in {self.path}; cordwood token list shows all")
            self._write(tuple(token for token in tokens if token is not gone))
            return gone

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others who want to change the file waiting, on a lock that ends with the process."""
        with suppress(FileExistsError):  # another made it this moment
            make_directory(self.path.parent)
        descriptor = os.open(
            self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            self._leave_to_the_owner(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, tokens: tuple[Token, ...]) -> None:
        new = self.path.with_name(self.path.name + ".new")
        new.unlink(missing_ok=True)  # of somebody who was killed here
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(encode(tokens))
            file.flush()
            self._leave_to_the_owner(descriptor)
            os.fsync(descriptor)
        os.rename(new, self.path)
        sync_path(self.path.parent)

    def _leave_to_the_owner(self, descriptor: int) -> None:
        """Give a file to whom the directory belongs: root makes tokens for a broker that is not root."""
        if os.geteuid() == 0:
            owner = os.stat(self.path.parent)
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
