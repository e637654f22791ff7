"""`check_plugin` finds what is easily overlooked, whatever the seed, and says what to do about it."""

import pytest

from berth.plugin import Promises
from berth.testing import PluginFaultError, check_plugin
from packages.scheduler.tests.testing import blind_plugins as blind

FOUND = {
    blind.ForgetsPodsInNodeSignature: ("memos", "its promises, signature or node_signature leave out something"),
    blind.DeafToPodLabels: ("waking", "register the event that has helped it"),
    blind.DeafToNodeLabels: ("waking", "register the event that has helped it"),
    blind.DeafToDeletions: ("waking", "register the event that has helped it"),
    blind.LessAgainstKey: ("order", "the queue goes by sort_key, so let less compare the keys"),
    blind.RandomLess: ("order", "less says another thing when it is asked again: let it compare one key"),
    blind.AlwaysLess: ("order", "let it compare one key of each pod"),
    blind.CyclicLess: ("order", "let it compare one key of each pod"),
    blind.MixedKeys: ("raises", "TypeError: '<' not supported"),
    blind.LessRaises: ("raises", "less: KeyError: 'due'"),
    blind.HintRaises: ("raises", "the hint for AssignedPodDelete: KeyError: 'hint'"),
    blind.ReadsTime: ("promise", ""),
    blind.ReadsDatetime: ("promise", ""),
    blind.Sleeps: ("time", "pre_bind waits for 0."),
    blind.SleepsInSteps: ("time", "pre_bind waits for 0."),
}


def faults(plugin, seed):
    if "promises" not in vars(plugin):
        plugin.promises = Promises()
    with pytest.raises(PluginFaultError) as told:
        check_plugin(plugin, seed=seed)
    return {fault.kind: fault.what for fault in told.value.faults}


@pytest.mark.parametrize("plugin", FOUND)
def test_what_is_easily_overlooked_is_found(plugin):
    kind, words = FOUND[plugin]
    assert words in faults(plugin, 0)[kind]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("plugin", FOUND)
def test_whatever_the_seed(plugin, seed):
    kind, words = FOUND[plugin]
    assert words in faults(plugin, seed)[kind]


def test_a_plugin_that_works_for_long_is_told_from_one_that_waits():
    assert "score works for 0.5 s in one call (" in faults(blind.Works, 0)["time"]
