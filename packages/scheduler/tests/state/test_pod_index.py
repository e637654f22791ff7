"""Counts of groups and carried terms follow every pod that comes, goes or changes."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from berth.api.selectors import EVERYTHING, Requirement, Selector, parse_label_selector
from berth.core.builders import make_node, make_pod
from berth.state.cache import Cache
from berth.state.pod_index import (
    MAX_GROUPS,
    PREFERRED_AFFINITY,
    REQUIRED_AFFINITY,
    REQUIRED_ANTI_AFFINITY,
    TERM_KINDS,
    SelectorGroup,
    TermGroup,
)
from tests.effort import examples
from tests.growth.held import reached_from

WEB = parse_label_selector("app=web")


def cache_of(*pods):
    cache = Cache(capacity=2)
    for name in ("n0", "n1"):
        cache.put_node(make_node(name).build())
    for pod in pods:
        cache.add_pod(pod.info())
    return cache


def web(name, node="n0", namespace="default", app="web"):
    return make_pod(name, namespace).label("app", app).node(node)


def group(*selectors, **more):
    return SelectorGroup(frozenset({"default"}), selectors or (WEB,), **more)


def test_a_group_counts_the_pods_of_its_namespaces_that_all_selectors_select():
    cache = cache_of(web("a"), web("b"), web("c", "n1"), web("d", app="db"), web("e", namespace="prod"))
    assert cache.index.group(group()).counts.tolist() == [2, 1]
    both = group(WEB, Selector((Requirement("tier", "Exists"),)))
    assert cache.index.group(both).counts.tolist() == [0, 0]


def test_a_group_counts_pods_on_many_nodes_whether_it_was_asked_for_before_they_came_or_after():
    pods = [
        web(f"{tier}-{number}", node=f"n{number % 20}").label("tier", tier)
        for tier in ("front", "back")
        for number in range(20 if tier == "front" else 50)
    ]
    before, after = cache_of(), cache_of(*pods)
    before.index.group(group())
    for pod in pods:
        before.add_pod(pod.info())
    counts = after.index.group(group()).counts
    assert counts[counts > 0].tolist() == [1 + 50 // 20 + (number < 50 % 20) for number in range(20)]
    assert before.index.group(group()).counts.tolist() == counts.tolist()


def test_pods_being_deleted_count_where_the_group_says_so():
    cache = cache_of(web("a"), web("b").terminating())
    assert cache.index.group(group()).counts.tolist() == [2, 0]
    assert cache.index.group(group(terminating=False)).counts.tolist() == [1, 0]
    cache.add_pod(web("a").terminating().info())
    assert cache.index.group(group(terminating=False)).counts.tolist() == [0, 0]


def test_namespaces_labels_decide_who_is_selected_and_groups_follow_them():
    cache = cache_of(web("a", namespace="prod"), web("b", "n1", namespace="dev"))
    in_prod = SelectorGroup(frozenset(), (WEB,), namespace_selector=parse_label_selector("env=prod"))
    assert cache.index.group(in_prod).counts.tolist() == [0, 0]
    cache.set_namespace("prod", {"env": "prod"})
    assert cache.index.group(in_prod).counts.tolist() == [1, 0]
    cache.set_namespace("dev", {"env": "prod"})
    cache.set_namespace("prod", None)
    assert cache.index.group(in_prod).counts.tolist() == [0, 1]
    anywhere = SelectorGroup(frozenset(), (WEB,), namespace_selector=EVERYTHING)
    assert cache.index.group(anywhere).counts.tolist() == [1, 1]


def test_carried_terms_are_found_by_the_pods_they_speak_of():
    carrier = make_pod("guard").node("n1").pod_anti_affinity("zone", {"app": "web"})
    cache = cache_of(carrier)
    found = cache.index.matching_terms(REQUIRED_ANTI_AFFINITY, make_pod().label("app", "web").info())
    assert [carried.weights.tolist() for carried in found] == [[0, 1]]
    assert not cache.index.matching_terms(REQUIRED_ANTI_AFFINITY, make_pod().label("app", "db").info())
    assert not cache.index.matching_terms(REQUIRED_AFFINITY, make_pod().label("app", "web").info())


def test_matches_follow_terms_that_come_and_go():
    cache, pod = cache_of(), make_pod().label("app", "web").info()

    def weights():
        return [c.weights.tolist() for c in cache.index.matching_terms(PREFERRED_AFFINITY, pod)]

    guard = make_pod("guard").node("n0").prefer_pod_affinity(5, "zone", {"app": "web"}).info()
    other = make_pod("other").node("n1").prefer_pod_affinity(7, "host", {"app": "web"}).info()
    assert weights() == []
    cache.add_pod(guard)
    assert weights() == [[5, 0]]
    cache.add_pod(other)
    assert weights() == [[5, 0], [0, 7]]
    cache.remove_pod(guard.uid)
    assert weights() == [[0, 7]]
    cache.add_pod(guard)
    assert sorted(weights()) == [[0, 7], [5, 0]]


def test_many_terms_that_come_and_go_leave_nothing_behind():
    cache, pod = cache_of(), make_pod().label("app", "web").info()
    for number in range(300):
        carrier = make_pod(f"p{number}").node("n0").pod_anti_affinity(f"key-{number}", {"app": "web"}).info()
        cache.add_pod(carrier)
        assert len(cache.index.matching_terms(REQUIRED_ANTI_AFFINITY, pod)) == 1
        cache.remove_pod(carrier.uid)
    assert not cache.index.matching_terms(REQUIRED_ANTI_AFFINITY, pod)
    assert not list(cache.index.terms(REQUIRED_ANTI_AFFINITY))


def test_terms_that_say_a_great_deal_are_forgotten_with_their_pods():
    cache = cache_of()
    for number in range(10):
        values = [f"value-{number}-{each}" for each in range(1000)]
        term = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
        carrier = make_pod(f"p{number}").node("n0").pod_anti_affinity("zone", term).info()
        cache.add_pod(carrier)
        cache.remove_pod(carrier.uid)
    held = {one for one, _ in reached_from(cache.index) if isinstance(one, str) and one.startswith("value-")}
    assert len(held) < 9 * 1000, "some terms may stay, but not ten that say 15 kB each"


def test_groups_beyond_the_limit_are_forgotten_and_counted_afresh():
    cache = cache_of(web("a"))
    for number in range(MAX_GROUPS + 5):
        cache.index.group(group(parse_label_selector(f"app notin (x{number})")))
    cache.add_pod(web("b").info())
    assert cache.index.group(group(parse_label_selector("app notin (x0)"))).counts.tolist() == [2, 0]
    cache.index.validate()


def test_a_running_pod_whose_terms_cannot_be_read_is_counted_without_them():
    selector = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    odd = web("odd").pod_affinity("zone", selector).info()
    cache = cache_of()
    cache.add_pod(odd)
    assert cache.index.group(group()).counts.tolist() == [1, 0]
    assert not list(cache.index.terms(REQUIRED_AFFINITY))
    cache.remove_pod(odd.uid)
    assert cache.index.group(group()).counts.tolist() == [0, 0]


def test_validate_finds_a_miscount():
    cache = cache_of(web("a"))
    cache.index.group(group()).add(0, 1)
    with pytest.raises(AssertionError, match="miscounted"):
        cache.index.validate()


def test_a_group_of_terms_of_which_only_one_goes_by_namespace_labels_follows_them():
    prod = {"namespaceSelector": {"matchLabels": {"env": "prod"}}}
    terms = make_pod().pod_affinity("zone", {"app": "web"}, **prod).pod_affinity("host", {"app": "web"})
    cache = Cache()
    cache.put_node(make_node("n0").build())
    cache.add_pod(web("a", "n0", "default").info())
    group_of_both = TermGroup(terms.info().required_affinity_terms)
    assert cache.index.group(group_of_both).counts.sum() == 0
    cache.set_namespace("default", {"env": "prod"})
    assert cache.index.group(group_of_both).counts.sum() == 1
    cache.index.validate()


class Index(RuleBasedStateMachine):
    """Pods and nodes come and go in any order; a recount must give the same."""

    def __init__(self):
        super().__init__()
        self.cache = cache_of()
        self.term = make_pod().pod_affinity("zone", {"app": "web"}, namespaceSelector={}).info()

    @rule(
        name=st.sampled_from("abcde"),
        node=st.sampled_from(["n0", "n1", "n2", "n3", "n4"]),
        app=st.sampled_from(["web", "db"]),
        namespace=st.sampled_from(["default", "prod"]),
        terminating=st.booleans(),
        affine=st.booleans(),
    )
    def put_pod(self, name, node, app, namespace, terminating, affine):
        pod = web(name, node, namespace, app)
        if terminating:
            pod.terminating()
        if affine:
            pod.pod_anti_affinity("zone", {"app": "web"}).prefer_pod_affinity(3, "host", {"app": app})
            pod.pod_affinity("zone", {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]})
        self.cache.add_pod(pod.info())

    @rule(name=st.sampled_from("abcde"), namespace=st.sampled_from(["default", "prod"]))
    def remove_pod(self, name, namespace):
        self.cache.remove_pod(make_pod(name, namespace).info().uid)

    @rule(name=st.sampled_from(["n0", "n1", "n2"]))
    def put_node(self, name):
        self.cache.put_node(make_node(name).build())

    @rule(namespace=st.sampled_from(["default", "prod"]), env=st.sampled_from(["prod", None]))
    def label_namespace(self, namespace, env):
        self.cache.set_namespace(namespace, None if env is None else {"env": env})

    @rule()
    def ask(self):
        index = self.cache.index
        index.group(group())
        index.group(group(terminating=False))
        index.group(SelectorGroup(frozenset({"default"}), (WEB,), parse_label_selector("env=prod")))
        index.group(TermGroup(self.term.required_affinity_terms))

    @invariant()
    def counts_are_right(self):
        self.cache.index.validate()

    @invariant()
    def carried_terms_are_found_by_every_pod_they_speak_of(self):
        index = self.cache.index
        for pod in (web("x"), web("x", namespace="prod"), web("x", app="db"), make_pod("x").label("tier", "web")):
            info = pod.info()
            for kind in TERM_KINDS:
                labels = index.namespace_labels(info.namespace)
                expected = {carried.term for carried in index.terms(kind) if carried.term.matches(info, labels)}
                assert {carried.term for carried in index.matching_terms(kind, info)} == expected


TestIndex = Index.TestCase
TestIndex.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
