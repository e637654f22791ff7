"""Standing in another state leaves no trace, whatever is put together: random histories, with everything checked."""

import random

from berth.agreement.moments import standing_in
from berth.core.builders import PodBuilder, make_node, make_pod
from berth.testing.invariants import check, check_cache
from packages.scheduler.tests.agreement.observing import Bystander


def picture(seen: Bystander) -> tuple[object, ...]:
    core = seen.core
    counted = {uid: (core.cache.table.names[state.row], state.pod.labels) for uid, state in core.cache.states().items()}
    nominated = {name: sorted(pod.uid for pod in core.nominator.pods_on(name)) for name in core.nominator.nodes()}
    unschedulable = [node.spec.unschedulable for node in core.cache.table.nodes if node is not None]
    table = core.cache.table
    order = list(table.row_of), list(table.tree.order()), [list(pods) for pods in table.pods]
    return counted, nominated, order, sorted(unschedulable), core.cache.assumed_count


def live(seed: int) -> Bystander:
    lots = random.Random(seed)
    seen = Bystander(
        *(make_node(f"n{number}").capacity(cpu="8", memory="8Gi", pods="20") for number in range(4)), ahead=0
    )
    pods: dict[str, PodBuilder] = {}
    for number in range(60):
        what = lots.choice(["bind", "bind", "bind", "nominate", "change", "terminate", "delete", "cordon", "lose"])
        name = f"n{lots.randrange(4)}"
        running = sorted(pods)
        if what in ("bind", "nominate"):
            builder = make_pod(f"p{number}").request(cpu="100m")
            seen.put(builder)
            if what == "nominate":
                seen.tell("MODIFIED", builder.copy().nominated(name).build())
            if what == "bind" or lots.random() < 0.5:
                seen.bind(builder, name)
                pods[builder.metadata["name"]] = builder.node(name)
        elif what == "cordon":
            seen.put(make_node(name).capacity(cpu="8", memory="8Gi", pods="20").unschedulable())
        elif what == "lose":
            seen.delete(make_node(name).build())
            seen.put(make_node(name).capacity(cpu="8", memory="8Gi", pods="20"))
        elif running:
            chosen = pods[lots.choice(running)]
            if what == "delete":
                del pods[chosen.metadata["name"]]
                seen.delete(chosen.build())
            else:
                pods[chosen.metadata["name"]] = chosen = (
                    chosen.label("seen", str(number)) if what == "change" else chosen.terminating()
                )
                seen.tell("MODIFIED", chosen.build())
    seen.finish()
    return seen


def test_every_state_of_the_past_is_left_as_it_was_entered() -> None:
    for seed in range(8):
        seen = live(seed)
        changes = list(seen.core._past.changes)
        before = picture(seen)
        lots = random.Random(seed)
        for _ in range(20):
            some = [change.undone for change in reversed(changes) if lots.random() < 0.6]
            with standing_in(seen.core, some):
                check_cache(seen.core.cache)
            assert picture(seen) == before
        check(seen.core)


def test_all_changes_taken_back_lead_to_where_the_journal_begins() -> None:
    seen = live(3)
    changes = list(seen.core._past.changes)
    with standing_in(seen.core, [change.undone for change in reversed(changes)]):
        assert not seen.core.cache.states()
        assert not list(seen.core.nominator.nodes())
