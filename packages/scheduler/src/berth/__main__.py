"""The command `berth`, which is `python -m berth` as well: nothing is imported before Ctrl-C has been seen to.

Python turns SIGINT into an exception wherever it happens to be, and most of the time of a short command that is in the
middle of an import: a traceback through other people's modules. Until the command's own code runs (`berth.cli` says
when), SIGINT ends the process as SIGTERM does, by the kernel and without a word; shells call that 130 and 143.
"""

# `signal` is enums around this builtin module, and its import takes longer than all that comes before it.
import _signal as signal  # type: ignore[import-not-found] # typeshed has none


def main() -> None:
    """Run the command that was typed."""
    with _ended_by_the_kernel():
        from berth.cli import main as command
        from berth.cli import prepare_process

        prepare_process()
        command(prog_name="berth")


def kubectl_plugin() -> None:
    """Run the command that was typed behind `kubectl berth`: the program `kubectl-berth`."""
    with _ended_by_the_kernel():
        from berth.cli import prepare_process
        from berth.cli.kubectl import run

        prepare_process()
        run()


def kubectl_completion() -> None:
    """Say what could come next behind `kubectl berth`: the program `kubectl_complete-berth`."""
    with _ended_by_the_kernel():
        from berth.cli.kubectl import complete

        complete()


class _ended_by_the_kernel:  # noqa: N801 - a context manager; `contextlib` would be an import before Ctrl-C is seen to
    """Let SIGINT end the process without a word, but where the command's own code hears it."""

    def __enter__(self) -> None:
        # Where it is ignored, as in the background of a script, it stays ignored.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def __exit__(self, *_: object) -> None:
        # Also while Python waits for threads and takes everything down.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
