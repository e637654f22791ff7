"""The command `berth`, which is `python -m berth` as well: nothing is imported before Ctrl-C has been seen to.

Python turns SIGINT into an exception wherever it happens to be, and most of the time of a short command that is in the
middle of an import: a traceback through other people's modules. Until the command's own code runs (`berth.cli` says
when), SIGINT ends the process as SIGTERM does, by the kernel and without a word; shells call that 130 and 143.
"""

# `signal` is enums around this builtin module, and its import takes longer than all that comes before it.
import _signal as signal  # type: ignore[import-not-found] # typeshed has none


def main() -> None:
    """Run the command that was typed."""
    # Where it is ignored, as in the background of a script, it stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from berth.cli import main as command

    try:
        command(prog_name="berth")
    finally:
        # Also while Python waits for threads and takes everything down.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
