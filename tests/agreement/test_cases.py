"""A pod that went otherwise is a case: decided again from the file, it has the totals that it was judged by."""

import io
import json

from berth.core.builders import make_namespace, make_node, make_pod
from berth.plugins.registry import in_tree_registry
from berth_workbench.cases.decide import told
from packages.scheduler.tests.agreement.observing import Bystander


def test_a_case_is_decided_again_as_it_was_judged() -> None:
    file = io.BytesIO()
    nodes = [
        make_node(f"n{number}").capacity(cpu="4", memory="8Gi", pods="20").zone(f"z{number}") for number in range(3)
    ]
    seen = Bystander(*nodes, config={"percentageOfNodesToScore": 100}, cases=file)
    seen.tell("ADDED", make_namespace("default"))
    full = make_pod("full").label("app", "web").request(cpu="3", memory="1Gi")
    late = (
        make_pod("late")
        .label("app", "web")
        .request(cpu="1", memory="1Gi")
        .spread("topology.kubernetes.io/zone", {"app": "web"}, max_skew=2)
    )
    for pod in (full, late):
        seen.put(pod)
        seen.bind(pod, "n1")
        seen.pass_revisions()
    assert seen.results() == {"full": "agrees", "late": "otherwise"}
    (line,) = file.getvalue().splitlines()
    (step,) = told(json.loads(line), in_tree_registry())["steps"]
    decision = seen.judged[1].decision
    assert step["total"] == decision.totals
    assert step["chosen"] in decision.best
