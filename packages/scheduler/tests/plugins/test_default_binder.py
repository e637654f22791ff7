"""DefaultBinder: one Binding asked for, and what is made of the answer."""

import pytest

from berth.core.builders import make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.effects import Answer, Bind, PodRef
from berth.framework.status import Code, error
from berth.plugins.default_binder import DefaultBinder
from packages.scheduler.tests.plugins.support import handle_of


def bind(answer):
    pod = make_pod("p", "ns").uid("u").info()
    steps = DefaultBinder(None, handle_of()).bind(CycleState(), pod, "n1")
    effect = next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.send(answer)
    return effect, ended.value.value


def test_the_binding_names_pod_and_node():
    effect, status = bind(Answer(1))
    assert effect == Bind(PodRef("ns", "p", "u"), "n1")
    assert status is None


def test_a_refused_binding_is_an_error_in_the_servers_words():
    _, status = bind(Answer(1, error='pods "p" not found (NotFound, HTTP 404)'))
    assert status == error('pods "p" not found (NotFound, HTTP 404)')
    assert status.code is Code.ERROR
