"""Tests that once could not fail do fail: each is run against a copy of the sources with a bug put in.

A mutant is one piece of the sources with a bug in its place. A change of such a piece changes it here as well; the
tests that are named must still find the bug.
"""

import os
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.long

SOURCES = ROOT / "packages/scheduler/src/berth"

STEPS = "tests/seeds/test_steps.py"
GENERATION = "packages/scheduler/tests/core/test_generation.py"

TIE = f"{STEPS}::test_among_equals_each_is_as_likely"
EXPIRY = f"{GENERATION}::test_an_assumed_pod_expires_in_the_first_sweep_after_its_time"
UNFINISHED = f"{GENERATION}::test_a_pod_whose_binding_has_not_finished_never_expires"
ERROR_ENDS = f"{STEPS}::test_an_error_on_one_node_ends_the_search"
PRE_FILTER = f"{STEPS}::test_a_rejection_by_pre_filter_is_every_nodes_and_preemption_is_silent"
NO_NODE_FIRST = f"{STEPS}::test_no_node_is_looked_at_before_the_others"
DEFAULTS = "packages/scheduler/tests/config/legacy/test_documents.py::test_the_default_providers_filters_and_weights"
BALANCE = "packages/scheduler/tests/plugins/legacy/test_resource_scores.py"
VOLUMES = "packages/scheduler/tests/plugins/volumes/test_core.py"
BIND_TIME = f"{VOLUMES}::test_documents_of_older_versions_give_the_time_for_binding_themselves"

DIRECTED = "tests/faults/test_directed.py"
HTTP = "packages/scheduler/tests/kube/http/test_client.py"
CURL = "packages/scheduler/tests/kube/http/test_curl.py"

MINDS = "test_a_filter_that_goes_by_objects_changes_its_mind_and_nothing_else_changes"
VIEWS = "packages/scheduler/tests/state/test_views.py"
ANEW = "test_what_does_not_last_is_computed_anew_each_time_and_so_is_what_is_made_of_it"
MADE_OF = "test_what_a_view_that_is_kept_is_made_of_is_kept"

RANDOM_ROW = "rows[self._rng.randrange(len(rows))]"
OVERDUE = "now >= state.deadline"
RULES = "msgspec.structs.replace(rules, registry=generation_of(config).registry)"


class Mutant(NamedTuple):
    """A piece of the sources that occurs once, the bug to put there, and the tests of which each must find it."""

    piece: str
    bug: str
    tests: tuple[str, ...]


MUTANTS = {
    "ties: the first": Mutant(RANDOM_ROW, "rows[0]", (TIE,)),
    "ties: the last": Mutant(RANDOM_ROW, "rows[-1]", (TIE,)),
    "ties: never the last": Mutant(RANDOM_ROW, "rows[self._rng.randrange(len(rows) - 1)]", (TIE,)),
    "ties: never the first": Mutant(RANDOM_ROW, "rows[self._rng.randrange(1, len(rows))]", (TIE,)),
    "assumed pods expire 5 s early": Mutant(OVERDUE, "now >= state.deadline - 5.0", (EXPIRY, UNFINISHED)),
    "assumed pods expire 5 s late": Mutant(OVERDUE, "now >= state.deadline + 5.0", (EXPIRY, UNFINISHED)),
    "the harness leaves a policy out": Mutant(
        RULES, f"{RULES[:-1]}, cycle=generation_of(config).cycle)", (ERROR_ENDS, PRE_FILTER, NO_NODE_FIRST)
    ),
    "v1.20: an error ends no search": Mutant("error_ends_search=True", "error_ends_search=False", (ERROR_ENDS,)),
    "v1.20: PreFilter's rejections are not counted": Mutant(
        "pre_filter_counts_nodes=True", "pre_filter_counts_nodes=False", (PRE_FILTER,)
    ),
    "v1.20: the nominated node comes first": Mutant(
        "nominated_node_first=False", "nominated_node_first=True", (NO_NODE_FIRST,)
    ),
    "getDefaultConfig: no veto": Mutant(
        'PluginRef("NodePreferAvoidPods", 10000)', 'PluginRef("NodePreferAvoidPods", 1)', (DEFAULTS,)
    ),
    "BalancedAllocation: both ways": Mutant(
        "return int((1 - abs(cpu - memory)) * float(MAX_NODE_SCORE))",
        "return int((1 - (cpu - memory)) * float(MAX_NODE_SCORE))",
        (f"{BALANCE}::test_balance_is_a_hundred_less_the_difference_of_the_percentages",),
    ),
    "DoWorkPieceFunc: absent nodes too": Mutant(
        "        places = table.valid[positions].nonzero()[0]\n        asked: RowArray",
        "        places = (positions < 40).nonzero()[0]\n        asked: RowArray",
        (f"{STEPS}::test_each_node_is_one_piece_of_work",),
    ),
    "HasScorePlugins: forgotten where there are extenders": Mutant(
        "return Scored(self._nodes, self._parts + parts, kept) if parts else self",
        "return self",
        (f"{STEPS}::test_a_profile_without_score_plugins_adds_nothing_to_what_extenders_say",),
    ),
    "evictions: whoever has the name by now": Mutant(
        '"preconditions": {"uid": pod.uid}',
        '"preconditions": {}',
        (f"{DIRECTED}::test_an_eviction_spares_the_pod_that_has_taken_the_name_of_its_victim",),
    ),
    "evictions: over with the API server's answer": Mutant(
        "while not is_refused and not is_shown():",
        "while False:",
        (
            "packages/scheduler/tests/cycle/test_late_watch.py::test_preemptors_that_come_at_once_take_no_more_than_they_need_either[0.4]",
        ),
    ),
    "start: before the caches are synced": Mutant(
        "await self.following.wait_for_sync()",
        "await asyncio.sleep(0.001)",
        (f"{DIRECTED}::test_nothing_is_written_before_everything_is_known",),
    ),
    "pending bindings: no limit": Mutant(
        "self.queue.pop(now) if begins else None",
        "self.queue.pop(now)",
        (f"{DIRECTED}::test_cycles_pause_while_many_bindings_are_unanswered",),
    ),
    "leases: in the bucket of all": Mutant(
        'for plural in ("events", "leases")}',
        'for plural in ("events",)}',
        (f"{HTTP}::TestRateLimit::test_a_lease_does_not_wait_for_the_turn_of_bindings",),
    ),
    "watches: in the pool of requests": Mutant(
        "self._send(self._connections.streams(), request, credential)",
        "self._send(self._connections.requests(), request, credential)",
        (f"{HTTP}::test_open_watches_leave_every_connection_of_the_pool_to_requests",),
    ),
    "libcurl: sends a POST again": Mutant(
        "if not self._is_idempotent or self._was_repeated:",
        "if self._was_repeated:",
        (f"{CURL}::test_a_kept_connection_that_breaks_when_the_next_request_has_arrived",),
    ),
    "libcurl: what is sent again passes no guard": Mutant(
        "                self._guard.check()",
        "                self._was_repeated or self._guard.check()",
        (f"{CURL}::test_the_guard_shuts_before_it_is_sent_again",),
    ),
    "libcurl: uses connections that the server has closed": Mutant(
        "self._fresh_until_s = self._loop.time() + UNCHECKED_S",
        "pass",
        (f"{CURL}::test_a_kept_connection_that_the_server_has_closed_meanwhile",),
    ),
    "views: of inputs that were computed as a whole": Mutant(
        "*[view.epoch for view in self.inputs], ",
        "",
        (
            f"packages/scheduler/tests/engine/remembered/test_lives.py::{MINDS}[by node]",
            f"packages/scheduler/tests/engine/remembered/test_lives.py::{MINDS}[by zone]",
        ),
    ),
    "views: taken for up to date though they must be asked for anew": Mutant(
        "if not self.lasts():",
        "if False:",
        (f"{VIEWS}::{ANEW}",),
    ),
    "views: kept when what they are made of is not": Mutant(
        "source.used = max(source.used, view.used)",
        "pass",
        (f"{VIEWS}::{MADE_OF}",),
    ),
    "views: of a table that has grown": Mutant(
        "memory.table.capacity, *", "*", (f"{VIEWS}::test_a_table_that_has_grown_for_pods_alone_makes_all_stale",)
    ),
    "WithBindTimeoutSeconds: not passed on": Mutant(
        '{"bindTimeoutSeconds": doc.bind_timeout_seconds}', '{"bindTimeoutSeconds": 600}', (BIND_TIME,)
    ),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy of the package; what was compiled of it is copied with it, and is good for all but a mutated file."""
    copy = tmp_path_factory.mktemp("mutants") / "berth"
    shutil.copytree(SOURCES, copy)
    return copy


def run(sources, *tests):
    """Run these tests against the copy; return how pytest ended and what it said."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(sources.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=line", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.timeout(330)
def test_without_a_bug_the_copy_passes(sources):
    done = run(sources, *sorted({test for mutant in MUTANTS.values() for test in mutant.tests}))
    assert done.returncode == pytest.ExitCode.OK, done.stdout


@pytest.mark.timeout(330)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_is_found(sources, name):
    mutant = MUTANTS[name]
    holders = [file for file in sources.rglob("*.py") if mutant.piece in file.read_text()]
    assert len(holders) == 1, (
        f"{mutant.piece!r} is in {len(holders)} files of packages/scheduler/src/berth; say here what stands there now"
    )
    (file,) = holders
    text = file.read_text()
    assert text.count(mutant.piece) == 1, f"{mutant.piece!r} occurs more than once in {file.name}"
    try:
        file.write_text(text.replace(mutant.piece, mutant.bug))
        done = run(sources, *mutant.tests)
    finally:
        file.write_text(text)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    survived = [test for test in mutant.tests if f"FAILED {test}" not in done.stdout]
    assert not survived, f"{name}: not found by {survived}\n{done.stdout}"
