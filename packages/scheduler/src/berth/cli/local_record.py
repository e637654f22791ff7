"""Where the schedulers of this machine serve, for `berth explain`: one file for each, readable by their user only.

`berth run` and `berth up` write a file when they listen and remove it when they end. The file holds the address and the
certificate to expect there, so that a token is shown to nobody else, and the API server's address, by which the
scheduler of a kubeconfig is found. The directory is $XDG_RUNTIME_DIR/berth, or berth-UID where temporary files are;
one that belongs to somebody else, or that others may write to, is not used.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from berth.api.untrusted import UNREADABLE

MAX_BYTES = 256 * 1024


class ServedLocally(msgspec.Struct, frozen=True):
    """A scheduler of this machine."""

    url: str
    """Where it serves, with an address of this machine."""
    certificate_pem: str
    """Empty where it serves plain HTTP on loopback, as older versions did; then it is shown no credentials."""
    cluster: str
    """The API server's address."""
    pid: int

    @property
    def is_plain(self) -> bool:
        """Say whether it is asked without TLS and without credentials."""
        return not self.certificate_pem


def record_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the files are."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    return Path(runtime, "berth") if runtime else Path(tempfile.gettempdir(), f"berth-{os.getuid()}")


def local_url(bind_address: str, port: int) -> str:
    """How this machine reaches an address that is listened on."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind_address, bind_address)
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


@contextlib.contextmanager
def recorded(served: ServedLocally, directory: Path) -> Iterator[None]:
    """Have the file there for the length of a block; where that is not possible, go on without it."""
    path = directory / f"scheduler-{served.pid}.json"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(directory):
            path.unlink(missing_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(msgspec.json.encode(served))
    except OSError:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def read_records(directory: Path) -> list[ServedLocally]:
    """The schedulers that have a file and are alive, as far as that can be seen."""
    if not _is_ours(directory):
        return []
    found = []
    for path in sorted(directory.glob("scheduler-*.json")):
        try:
            if path.is_symlink() or path.stat().st_size > MAX_BYTES:
                continue
            record = msgspec.json.decode(path.read_bytes(), type=ServedLocally)
            os.kill(record.pid, 0)
        except (*UNREADABLE, OSError, OverflowError):
            continue
        if record.url.startswith("https://") or (record.is_plain and record.url.startswith("http://127.0.0.1:")):
            found.append(record)
    return found


def _is_ours(directory: Path) -> bool:
    try:
        told = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(told.st_mode) and told.st_uid == os.getuid() and not told.st_mode & 0o022
