"""The fingerprint of a set of pods, by which agents say which pods they have seen on a node.

The format is that of github.com/k8stopologyawareschedwg/podfingerprint, `pfp0` and `v001`: each pod is the XXH64 of its
name, seeded with that of its namespace; the fingerprint is the XXH64 of these numbers in ascending order, 8 bytes each,
little endian, in 16 hexadecimal digits. XXH64 is that of the xxHash specification.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import iter_unpack, unpack_from

ANNOTATION = "topology.node.k8s.io/fingerprint"
ATTRIBUTE = "nodeTopologyPodsFingerprint"
METHOD_ATTRIBUTE = "nodeTopologyPodsFingerprintMethod"
WITH_EXCLUSIVE_RESOURCES = "with-exclusive-resources"
"""The method that counts only pods with exclusive resources; any other counts all."""
FORMAT = "pfp0v001"

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, given by namespace and name."""
    numbers = sorted(pod_number(namespace, name) for namespace, name in pods)
    return f"{FORMAT}{xxh64(b''.join(number.to_bytes(8, 'little') for number in numbers)):016x}"


@lru_cache(maxsize=1 << 17)
def pod_number(namespace: str, name: str) -> int:
    """Return the number that stands for a pod."""
    return xxh64(name.encode(), xxh64(namespace.encode()))


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the XXH64 of some bytes."""
    size, at = len(data), 0
    if size >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        at = size - size % 32
        for words in iter_unpack("<4Q", data[:at]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        found = sum(_turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        found = (seed + _P5) & _MASK
    found = (found + size) & _MASK
    while at + 8 <= size:
        found = (_turned(found ^ _round(0, unpack_from("<Q", data, at)[0]), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= size:
        found = (_turned(found ^ (unpack_from("<I", data, at)[0] * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        found = _turned(found ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    found = (found ^ found >> 33) * _P2 & _MASK
    found = (found ^ found >> 29) * _P3 & _MASK
    return found ^ found >> 32


def _round(lane: int, word: int) -> int:
    return _turned((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _turned(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _MASK
