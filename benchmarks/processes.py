"""What processes cost, as /proc tells it: CPU and memory of a command with its children, and who listens on a port."""

import os
import threading
from pathlib import Path

PROC = Path("/proc")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.1


def stat(pid: int) -> tuple[int, float] | None:
    """The parent of a process, and its CPU seconds without its children; None if it is gone."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(fields[1]), sum(map(int, fields[11:13])) / TICKS_A_SECOND


def tree(root: int) -> list[int]:
    """A process and everything below it that lives."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (found := stat(int(entry.name))) is not None:
            children.setdefault(found[0], []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, ())
    return found


def cpu_s(pids: list[int]) -> float:
    """CPU seconds of processes so far."""
    return sum(found[1] for pid in pids if (found := stat(pid)) is not None)


def peak_mb(pid: int) -> float:
    """The most memory that a process has had resident, in megabytes; 0 if it is gone."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def listening_on(port: int) -> int | None:
    """The process on this machine that listens on a TCP port; None where there is none, or none that we may see."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        for line in (PROC / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                sockets.add(f"socket:[{fields[9]}]")
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if any(str(link.readlink()) in sockets for link in (entry / "fd").iterdir()):
                return int(entry.name)
        except OSError:
            continue
    return None


class Watched:
    """A command at work: what it and its children have used so far, looked at ten times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._cpu: dict[int, float] = {}
        self._peak: dict[int, float] = {}
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while True:
            for pid in tree(self._pid):
                found = stat(pid)
                if found is not None:
                    self._cpu[pid] = max(found[1], self._cpu.get(pid, 0.0))
                    self._peak[pid] = max(peak_mb(pid), self._peak.get(pid, 0.0))
            if self._ended.wait(SAMPLE_S):
                return

    def cpu_s(self) -> float:
        """CPU seconds now: of those that live as they are, of the others as they were when they were last seen."""
        for pid in list(self._cpu):
            found = stat(pid)
            if found is not None:
                self._cpu[pid] = max(found[1], self._cpu[pid])
        return sum(self._cpu.values())

    def end(self) -> float:
        """Look no longer; return the megabytes of memory that the processes had at their peaks, added up."""
        self._ended.set()
        self._thread.join()
        return sum(self._peak.values())
