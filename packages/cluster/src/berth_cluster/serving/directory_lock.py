"""Keeps a second server out of a directory in which one is running.

Two servers that write the same kubeconfig would each lock the other's clients out. The lock is the operating system's
(`flock`), so that one left behind by a process that was killed holds nobody up.
"""

import fcntl
import os
from pathlib import Path

from berth.api.user_error import UserError


class DirectoryInUseError(UserError):
    """Another server has the directory; the message says so."""


class DirectoryLock:
    """Holds the directory from `acquire` to `release`."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, directory: Path) -> None:
        self._path = directory / "lock"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, unless it is held already; `DirectoryInUseError` when another server has it."""
        if self._descriptor is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise DirectoryInUseError(
                f"{self._path.parent} is in use: {who} runs a server there; end it, or choose another --dir"
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go; safe to call twice. The file stays, since removing it could remove a successor's."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
