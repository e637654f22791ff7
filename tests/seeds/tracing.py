"""A pytest plugin that notes which functions of `README.md` beside it each test runs.

Used by `test_table.py` in a process of its own, as `-p tests.seeds.tracing`. Only calls are traced,
no lines. With `SEEDS_TRACE=FILE` in the environment it writes `{test: [functions that ran], …}` there as JSON; a test
that failed is not in it.
"""

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.seeds.table import rows


class Tracer:
    """Notes the functions of the table that run while a test does."""

    def __init__(self):
        self.wanted = {row.code: f"{row.module}.{row.function}" for row in rows()}
        self.seen = defaultdict(set)
        self.current = None
        self.failed = set()

    def trace(self, frame, event, arg):
        name = self.wanted.get(frame.f_code)
        if name is not None:
            self.current.add(name)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item):
        yield from self._traced(item)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        yield from self._traced(item)

    def _traced(self, item):
        """Run a phase of a test with every call looked at."""
        test = item.nodeid.partition("[")[0]
        self.current = self.seen[test]
        before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            outcome = yield
        finally:
            sys.settrace(before)
        if outcome.excinfo is not None:
            self.failed.add(test)

    def pytest_sessionfinish(self, session):
        ran = {test: sorted(names) for test, names in self.seen.items() if test not in self.failed}
        Path(os.environ["SEEDS_TRACE"]).write_text(json.dumps(ran))


def pytest_configure(config):
    if os.environ.get("SEEDS_TRACE"):
        config.pluginmanager.register(Tracer(), "seeds-tracer")
