"""What would help all that is pending: whom to ask about, and the search for one after the other, within a bound."""

from collections.abc import Iterator
from typing import Final

from berth_workbench.planning.ends import KnownEnds
from berth_workbench.planning.help.group import groups_of
from berth_workbench.planning.help.result import Help
from berth_workbench.planning.help.search import MAX_TRIALS, what_would_help
from berth_workbench.simulation.budgets import is_active
from berth_workbench.simulation.rehearsal import Rehearsal
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch

TRIALS_OF_ALL: Final = 10_000
"""How often the filters are asked at most for all workloads together, where nobody has asked about a certain one."""


def stay_pending(site: Site, namespace: str = "") -> list[str]:
    """Return a pod of each group of pods that stay pending, the most important first, then the largest group.

    Whoever gets a place by itself once the scheduler comes to it needs no help, unless it is others that pay for it.
    """
    with Rehearsal(site) as settling:
        site.settle()
        if not site.cluster.evictions:
            settling.keep()
    pods = (pod for pod in site.cluster.pods.values() if not pod.spec.node_name and is_active(pod))
    groups = groups_of(site.cluster, (pod for pod in pods if namespace in ("", pod.metadata.namespace)))
    firsts = sorted(groups.values(), key=lambda group: (-(group[0].spec.priority or 0), -len(group), group[0].key))
    return [group[0].key for group in firsts]


def help_for_all(situation: Situation, watch: WorkWatch = UNWATCHED, namespace: str = "") -> Iterator[Help]:
    """Yield what would help each workload that stays pending, up to a bound, and until somebody asks for an end."""
    site = situation.site(watch)
    documents, left = situation.snapshot.documents, TRIALS_OF_ALL
    ending = KnownEnds(documents).in_words(site.cluster.pods.values())
    for key in stay_pending(site, namespace):
        if left <= 0 or watch.is_stopped:
            return
        pod, trials = site.cluster.objects["Pod", key], min(left, MAX_TRIALS)
        found = what_would_help(
            site.cluster, pod, documents=documents, ending=ending, max_trials=trials, watch=watch.within()
        )
        left -= found.trials
        yield found
