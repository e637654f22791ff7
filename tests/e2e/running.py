"""A `berth up` or `berth apiserver` as a subprocess for the length of a block, for tests with foreign clients."""

import contextlib
import subprocess
import sys
from pathlib import Path

BERTH = Path(sys.executable).with_name("berth")
END_S = 10


@contextlib.contextmanager
def running(*arguments):
    """Run the command; the block begins when it says that it is ready, and with the block it ends, cleanly."""
    process = subprocess.Popen([BERTH, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C" in line:
                break
        else:
            raise AssertionError("the command ended before it was ready:\n" + "".join(said))
        yield process
    finally:
        process.terminate()
        try:
            rest, _ = process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            rest, _ = process.communicate()
    assert "Traceback" not in "".join(said) + rest, rest
    assert process.returncode == 0, rest
