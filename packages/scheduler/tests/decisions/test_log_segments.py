"""The decision log's files: read back as written, by halving; damage and half lines are noticed."""

import gzip
import zlib

import pytest

from berth.decisions.log_segments import (
    BLOCK_BYTES,
    DamagedSegmentError,
    Files,
    InMemory,
    LogInUseError,
    Sealed,
    compressed,
    numbered,
    suffix_of,
)


def lines(count, width=200):
    return [f'{{"pod":"default/web-{number:05}","uid":"u",{"x" * width}\n'.encode() for number in range(count)]


def sealed(storage, told, suffix=".000001.gz"):
    storage.replace(suffix, compressed(told))
    return Sealed(storage, suffix)


class Counted(InMemory):
    """A storage that says how much was read."""

    __slots__ = ("read_bytes",)

    def read(self, suffix, offset=0, count=-1):
        found = super().read(suffix, offset, count)
        self.read_bytes += len(found)
        return found


def test_a_sealed_file_is_plain_gzip(tmp_path):
    told = lines(3000)
    sealed(Files(tmp_path / "log"), told)
    assert gzip.decompress((tmp_path / "log.000001.gz").read_bytes()) == b"".join(told)


def test_all_lines_come_back_in_order():
    told = lines(3000)
    assert list(sealed(InMemory(), told)) == told


@pytest.mark.parametrize("number", [0, 1, 299, 300, 301, 1500, 2999])
def test_one_pods_lines_are_found(number):
    found = sealed(InMemory(), lines(3000)).find(f'{{"pod":"default/web-{number:05}",'.encode())
    assert found == [lines(3000)[number]]


def test_lines_that_go_on_in_the_next_block_are_found():
    many = [b'{"pod":"b","uid":"%06d",%s\n' % (number, b"x" * 500) for number in range(500)]
    told = [b'{"pod":"a","uid":"u"}\n', *many, b'{"pod":"c","uid":"u"}\n']
    assert sum(map(len, many)) > 3 * BLOCK_BYTES
    assert sealed(InMemory(), told).find(b'{"pod":"b",') == many


def test_who_is_not_there_is_not_found():
    file = sealed(InMemory(), lines(3000))
    assert file.find(b'{"pod":"aaa/web",') == file.find(b'{"pod":"zzz/web",') == []
    assert file.find(b'{"pod":"default/web-0150",') == []


def test_only_the_blocks_that_matter_are_read_once_it_is_indexed():
    storage = Counted()
    storage.read_bytes = 0
    told = [line.replace(b"x" * 200, zlib.crc32(line).to_bytes(4, "big").hex().encode() * 25) for line in lines(20000)]
    file = sealed(storage, told)
    file.find(b'{"pod":"default/web-00000",')
    storage.read_bytes = 0
    file.find(b'{"pod":"default/web-10000",')
    assert 0 < storage.read_bytes < storage.size(".000001.gz") / 20


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-5], lambda data: b"\0" + data[1:], lambda data: data[:100] + b"\xff" * 40 + data[140:]],
)
def test_a_damaged_file_is_noticed(damage):
    storage = InMemory()
    sealed(storage, lines(3000))
    storage.replace(".000001.gz", [damage(storage.read(".000001.gz"))])
    with pytest.raises(DamagedSegmentError, match=r"\.000001\.gz"):
        list(Sealed(storage, ".000001.gz"))


def test_a_half_written_line_is_left_out(tmp_path):
    (tmp_path / "log").write_bytes(b'{"a":1}\n{"b":')
    files = Files(tmp_path / "log")
    files.append(b'{"c":2}\n')
    assert files.read("") == b'{"a":1}\n{"c":2}\n'


def test_files_are_for_their_user_only(tmp_path):
    files = Files(tmp_path / "deep" / "log")
    files.append(b"x\n")
    files.replace(suffix_of(1), [b"y"])
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "deep").iterdir()} == {0o600}
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o700


def test_two_processes_do_not_write_one_log(tmp_path):
    first = Files(tmp_path / "log")
    with pytest.raises(LogInUseError, match="another scheduler"):
        Files(tmp_path / "log")
    first.close()
    Files(tmp_path / "log").close()


def test_other_files_beside_it_are_not_its_own(tmp_path):
    for name in ("log.bak", "log.000001.gz.tmp", "log.1.gz", "other"):
        (tmp_path / name).write_bytes(b"x")
    files = Files(tmp_path / "log")
    files.replace(suffix_of(7), [b"y"])
    files.replace(".kept.gz", [b"y"])
    assert files.suffixes() == [".000007.gz", ".kept.gz"]
    assert [numbered(suffix) for suffix in files.suffixes()] == [7, 0]
