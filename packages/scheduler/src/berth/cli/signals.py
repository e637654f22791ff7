"""How commands that go on until they are told to stop are told: by Ctrl-C and SIGTERM."""

import asyncio
import logging
import signal

_log = logging.getLogger("berth")


def stop_on_signals() -> asyncio.Event:
    """An event that Ctrl-C and SIGTERM set; the second of them ends the process at once, whatever it is doing."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)  # the kernel's doing, so that nothing in here can be in its way

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told)
    return stop


def go_on_after_hangup() -> None:
    """Log SIGHUP and go on: by itself it ends a process, and with it a cluster that lives in there."""

    def told() -> None:
        _log.warning("SIGHUP: there is no configuration to read again; going on")

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, told)
