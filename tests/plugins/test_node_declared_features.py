"""NodeDeclaredFeatures has nothing to say of any pod, and its events help none."""

from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, QueueingHint
from berth.framework.status import SKIP
from berth.plugins.node_declared_features import NodeDeclaredFeatures
from berth.testing.builders import make_node, make_pod
from tests.plugins.support import handle_of, registered

CLUSTER = handle_of(make_node("a").build())
PLUGIN = NodeDeclaredFeatures(None, CLUSTER)


def test_every_pod_is_let_go_by():
    pod = make_pod().volume("tmp", emptyDir={}).info()
    table = CLUSTER.cache.table
    assert PLUGIN.pre_filter(CycleState(), pod) is SKIP
    assert PLUGIN.filter(CycleState(), pod, table.view(table.row_of["a"])) is None


def test_events_are_upstreams_and_none_helps():
    events = {("Node", Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE), ("Pod", Action.UPDATE)}
    assert registered(PLUGIN) == events
    for registration in PLUGIN.events_to_register():
        assert registration.hint(make_pod().info(), None, None) is QueueingHint.SKIP
