"""A cluster that is lent to one question after the other: every answer is that of a cluster loaded for it alone."""

import random
import threading

import msgspec
import pytest

from berth_workbench.simulation.kept import KeptCluster
from berth_workbench.simulation.watch import StoppedError, WorkWatch
from packages.workbench.tests.asking import WatchUntil
from packages.workbench.tests.questions.every import ASKED, QUESTIONS
from tests.effort import examples

OF_A_CLUSTER = [name for name in ASKED if ASKED[name]()[0] is not None]


def document(name, situation, request, watch=None):
    question = QUESTIONS[name]
    return msgspec.to_builtins(question.document(question.answer(situation, request, watch or WorkWatch())))


@pytest.mark.parametrize("seed", range(examples(2)))
def test_no_question_leaves_anything_behind_for_the_next(seed):
    """Whole ones, and ones that were stopped in the middle, in any order."""
    rng, kept = random.Random(seed), KeptCluster()
    situation = ASKED["survive"]()[0]
    names = rng.sample(OF_A_CLUSTER, len(OF_A_CLUSTER))
    for name in [*names, *names]:
        own, request = ASKED[name]()
        lent = msgspec.structs.replace(situation, steps=own.steps, kept=kept)
        if rng.random() < 0.5:
            limit = rng.randrange(60, 200)
            try:
                document(name, lent, request, watch := WatchUntil(lambda _, limit=limit: watch.done > limit))
            except StoppedError:
                pass
            finally:
                kept.take_back()
        try:
            found = document(name, lent, request)
        finally:
            kept.take_back()
        assert found == document(name, msgspec.structs.replace(lent, kept=None), request), name


def test_it_is_loaded_once_for_one_snapshot_and_configuration():
    kept, situation = KeptCluster(), ASKED["wait"]()[0]
    lent = msgspec.structs.replace(situation, kept=kept)
    clusters = []
    for each in (lent, lent, msgspec.structs.replace(lent, seed=1)):
        clusters.append(each.untouched().cluster)
        kept.take_back()
    assert clusters[0] is clusters[1] is not clusters[2]


def test_who_comes_while_it_is_lent_gets_another_and_gives_nothing_back():
    kept = KeptCluster()
    lent = msgspec.structs.replace(ASKED["wait"]()[0], kept=kept)
    first, others = lent.untouched(), []

    def beside():
        others.append(lent.untouched())
        kept.take_back()

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    assert others[0].cluster is not first.cluster and first.cluster.is_tried_on
    kept.take_back()
    assert not first.cluster.is_tried_on
