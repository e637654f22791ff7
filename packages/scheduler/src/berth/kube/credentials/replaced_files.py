"""Certificates, keys and authorities in files that may be replaced while we run.

Certificate rotation replaces files some time before the old ones expire, and not always all at once: a new certificate
may be next to the old key for a moment. So files that belong together are switched together, and only once they are
usable; until then their earlier contents stay in use. As with client-go, what a kubeconfig holds itself
(`client-certificate-data`, …) is read once.
"""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from berth.kube.credentials.tls import TlsError, TlsSettings, build_context

LOOK_AGAIN_S = 10.0
"""How often, at most, the files are read; a refusal by the server has them read before the next request.

client-go reads certificates at each handshake, and closes connections that show another one within five minutes.
"""

_log = logging.getLogger("berth.credentials")


class ReplacedFiles:
    """Files that are used together, and their last usable contents."""

    __slots__ = ("_check", "_clock", "_looked_at_s", "_paths", "_problem", "contents")

    def __init__(
        self,
        paths: Sequence[Path],
        contents: Sequence[bytes],
        check: Callable[[Sequence[bytes]], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`contents` were just read and are usable; `check` raises `TlsError` for what is not."""
        self._paths = paths
        self.contents = tuple(contents)
        """What is in use, in the order of the paths."""
        self._check = check
        self._clock = clock
        self._looked_at_s = clock()
        self._problem = ""

    def look(self) -> None:
        """Read the files again, if that is due."""
        if self._clock() - self._looked_at_s >= LOOK_AGAIN_S:
            self.look_now()

    def look_now(self) -> bool:
        """Read the files again; return whether their contents have changed and are now in use."""
        self._looked_at_s = self._clock()
        names = " and ".join(map(str, self._paths))
        try:
            contents = tuple(path.read_bytes() for path in self._paths)
            if not all(content.strip() for content in contents):  # which would mean that there is no such setting
                self._tell(f"{names}: empty")
                return False
            if contents != self.contents:
                self._check(contents)
        except OSError as error:
            self._tell(f"cannot read {error.filename}: {error.strerror}")
        except TlsError as error:
            self._tell(f"{names}: {error.piece}: {error}")
        else:
            self._problem = ""
            if contents != self.contents:
                self.contents = contents
                _log.info("%s: replaced, and in use from now on", names)
                return True
        return False

    def _tell(self, problem: str) -> None:
        """Log what is wrong, once."""
        if problem != self._problem:
            self._problem = problem
            _log.warning("what was read before stays in use: %s", problem)


def client_certificate_files(
    certificate: Path, key: Path, pair: Sequence[bytes], clock: Callable[[], float] = time.monotonic
) -> ReplacedFiles:
    """Follow a client certificate and its key; `pair` is what the files hold."""

    def check(contents: Sequence[bytes]) -> object:
        return build_context(TlsSettings(insecure_skip_verify=True, certificate_pem=contents[0], key_pem=contents[1]))

    return ReplacedFiles((certificate, key), pair, check, clock)


def authority_file(path: Path, ca_pem: bytes, clock: Callable[[], float] = time.monotonic) -> ReplacedFiles:
    """Follow the authorities that may have issued the server's certificate; `ca_pem` is what the file holds."""
    return ReplacedFiles((path,), (ca_pem,), lambda contents: build_context(TlsSettings(ca_pem=contents[0])), clock)
