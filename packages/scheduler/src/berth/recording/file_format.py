"""Files of a recording: how records are packed, and how they are read again.

A file begins with one line of text that names the format. Then come frames: a letter, the length, a checksum, and so
many bytes of a zlib stream that was flushed at the frame's end. `S` begins a segment: its own zlib stream, and a header
as its first record. `F` goes on with it. A recorder writes a segment to a file; what is exported may hold several.

A process that is killed leaves a file whose last frame may be incomplete: everything before it is read, and
`Segment.is_cut` says so. Damage anywhere else is an error.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import msgspec

from berth.recording.calls import RecordedCall, check
from berth.recording.errors import RecordingError
from berth.recording.objects import plain_mapping

FORMAT: Final = 1
MAGIC: Final = b"berth recording "
SUFFIX: Final = ".rec"
FRAME: Final = struct.Struct(">cII")
BEGIN, GO_ON = b"S", b"F"
MAX_FRAME: Final = 1 << 28
"""No frame is longer, compressed or not; a file that says so is damaged, or made to harm."""
LEVEL: Final = 3

Beginning = Literal["start", "reload", "rotation", "export"]


class SegmentHeader(msgspec.Struct, frozen=True, rename="camel"):
    """What a segment says of itself, and everything that a core like the recorded one is made from."""

    begins: Beginning
    """Why it begins: the process or a new configuration has started, or the segment before it was full."""
    life: str
    """Which core this is; the segments of one have the same."""
    berth: str
    """The version of Berth."""
    python: str
    wall_time: float
    """Seconds since the epoch at its beginning, and what the core's clock said then."""
    clock: float
    seed: int
    reads_clock: bool
    """Whether the core reads the clock itself, too, after an attempt."""
    generation: str
    """Whose rules apply; most often those that the configuration names."""
    config: dict[str, Any]
    plugins: dict[str, str]
    """Where each plugin comes from that is not part of Berth, by name."""
    options: dict[str, Any] = {}
    """Further arguments of `build_core`."""
    format: int = FORMAT


class Packer:
    """Packs the records of one segment into frames."""

    __slots__ = ("_compress", "_encode", "_letter")

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder(enc_hook=plain_mapping).encode
        self._compress = zlib.compressobj(LEVEL)
        self._letter = BEGIN

    def pack(self, record: SegmentHeader | list[RecordedCall]) -> bytes:
        """Return a frame: the first is the header, and each that follows a list of calls."""
        packed = self._compress.compress(self._encode(record)) + self._compress.flush(zlib.Z_SYNC_FLUSH)
        letter, self._letter = self._letter, GO_ON
        return FRAME.pack(letter, len(packed), zlib.crc32(packed)) + packed


def first_line() -> bytes:
    """Return what a file begins with."""
    return MAGIC + f"{FORMAT}\n".encode()


class Segment:
    """A segment as it is read; its calls can be gone through once."""

    __slots__ = ("_frames", "advance", "header", "is_cut", "is_stopped", "is_whole", "path")

    def __init__(self, path: Path, header: SegmentHeader, frames: "_Frames") -> None:
        self.path = path
        self.advance: Callable[[int], None] = lambda _size: None
        """Told how many bytes of the file have been gone through."""
        self.is_stopped: Callable[[], bool] = lambda: False
        """Asked now and then whether nobody wants the rest."""
        self.header = header
        self._frames = frames
        self.is_cut = False
        """Whether its end is missing; known once all calls were read."""
        self.is_whole = False
        """Whether all its calls were gone through."""

    def calls(self) -> Iterator[RecordedCall]:
        """Yield its calls in order. Raises `RecordingError`."""
        while not self.is_stopped():
            calls = self._frames.next()
            if calls is None:
                self.is_whole = True
                break
            for call in calls:
                check(call)
            yield from calls
            self.advance(self._frames.taken())
        self.is_cut = self._frames.is_cut


class _Frames:
    """The frames of a file, one after the other."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._inflate: Any = None
        self._header: SegmentHeader | None = None
        """That of the next segment, once its first frame was read."""
        self._calls = msgspec.msgpack.Decoder(list[RecordedCall])
        self._headers = msgspec.msgpack.Decoder(SegmentHeader)
        self._told = 0
        self.is_cut = False

    def taken(self) -> int:
        """Return how many bytes were read since this was last asked."""
        before, self._told = self._told, self._file.tell()
        return self._told - before

    def begin(self) -> SegmentHeader | None:
        """Go to the next segment; return what it says of itself, or None where there is no other."""
        while self._header is None and self.next() is not None:
            pass
        header, self._header = self._header, None
        return header

    def next(self) -> list[RecordedCall] | None:
        """Return the calls of the segment's next frame; None at its end."""
        if self.is_cut or self._header is not None:
            return None
        position = self._file.tell()
        found = self._packed(position)
        if found is None:
            return None
        letter, packed = found
        if letter == BEGIN:
            self._inflate = zlib.decompressobj()
        try:
            data = self._inflate.decompress(packed, MAX_FRAME)
            if self._inflate.unconsumed_tail:
                raise self._damaged(position)
            if letter == GO_ON:
                return self._calls.decode(data)
            self._header = self._headers.decode(data)
        except (zlib.error, msgspec.DecodeError, AttributeError, RecursionError):
            raise self._damaged(position) from None
        return None

    def _packed(self, position: int) -> tuple[bytes, bytes] | None:
        """Return the letter and the bytes of the next frame, if it is there and whole."""
        head = self._file.read(FRAME.size)
        if not head:
            return None
        if len(head) < FRAME.size:
            self.is_cut = True
            return None
        letter, length, checksum = FRAME.unpack(head)
        if letter not in (BEGIN, GO_ON) or length > MAX_FRAME:
            raise self._damaged(position)
        packed = self._file.read(length)
        is_whole = len(packed) == length and zlib.crc32(packed) == checksum
        if not is_whole and self._file.read(1):
            raise self._damaged(position)
        self.is_cut = not is_whole
        return (letter, packed) if is_whole else None

    def _damaged(self, position: int) -> RecordingError:
        return RecordingError(f"{self._path} is damaged at byte {position}; what follows cannot be read")


def read_segments(source: Path) -> Iterator[Segment]:
    """Yield the segments of a file, or of all the files of a directory, in order. Raises `RecordingError`.

    Each must be read before the next is asked for.
    """
    for path in recording_files(source):
        try:
            with path.open("rb") as file:
                line = file.readline(len(MAGIC) + 16)
                if not line and source.is_dir():
                    continue  # the process ended before it had written anything
                _check_format(path, line)
                frames = _Frames(path, file)
                while (header := frames.begin()) is not None:
                    yield Segment(path, header, frames)
        except OSError as error:
            raise RecordingError(f"cannot read {path}: {error.strerror or error}") from None


def recording_files(source: Path) -> list[Path]:
    """Return the files of a recording, the oldest first. Raises `RecordingError` where there is none."""
    try:
        is_directory, is_there = source.is_dir(), source.exists()
    except OSError as error:  # a name that is too long
        raise RecordingError(f"{source}: {error.strerror}") from None
    if not is_there:
        raise RecordingError(f"there is no file or directory {source}")
    if not is_directory:
        return [source]
    files = sorted(source.glob(f"*{SUFFIX}"))
    if not files:
        raise RecordingError(f"{source} holds no recording: files of one end in {SUFFIX}")
    return files


def _check_format(path: Path, line: bytes) -> None:
    number = line.removeprefix(MAGIC).strip()
    if not line.startswith(MAGIC) or not number.isdigit() or not int(number):
        raise RecordingError(f"{path} is no recording: it does not begin with {MAGIC.decode().strip()!r}")
    if int(number) > FORMAT:
        raise RecordingError(
            f"{path} has format {int(number)}, and this version of Berth reads up to {FORMAT}: use a newer one"
        )
