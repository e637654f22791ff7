"""Progress that costs nothing where nobody looks, and a Ctrl-C that lets work end by itself."""

import os
import signal

import pytest

from berth_workbench.cli.progress import working


def test_the_first_interrupt_asks_and_the_second_ends(capsys):
    before = signal.getsignal(signal.SIGINT)
    with working("counting", 3) as work:
        work.advance()
        assert not work.is_stopped
        os.kill(os.getpid(), signal.SIGINT)
        assert work.is_stopped
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert "what is done is kept" in capsys.readouterr().err


def test_without_a_terminal_nothing_is_drawn(capsys, monkeypatch):
    monkeypatch.setattr("berth_workbench.cli.progress.PATIENCE_S", 0.0)
    monkeypatch.setattr("berth_workbench.cli.progress.LOOK_EVERY_S", 0.0)
    with working("counting", 3) as work:
        for _ in range(3):
            work.advance()
    assert capsys.readouterr().err == ""


def test_on_a_terminal_the_bar_comes_and_goes(capsys, monkeypatch):
    monkeypatch.setattr("berth_workbench.cli.progress.PATIENCE_S", 0.0)
    monkeypatch.setattr("berth_workbench.cli.progress.LOOK_EVERY_S", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with working("counting sheep", 3) as work:
        work.advance(2)
        assert work._bar is not None
        (task,) = work._bar.tasks
        assert (task.description, task.completed, task.total) == ("counting sheep: 2 of 3", 2, 3)
    assert work._bar is None
