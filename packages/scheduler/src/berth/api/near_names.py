"""Which known names one looks like that nobody knows: to say what was meant, or to refuse what is surely misspelt.

A hint may be generous, and goes by difflib. `looks_like` decides whether a plugin is refused, so it counts letters:
difflib's share of equal letters would take `pre_filter_all` for `pre_filter`.
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

SHOWN = 3
"""So many names are asked about at most."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a clause that names the known words that look like `name`, or nothing."""
    return meant(alike(name, known))


def meant(names: Sequence[str]) -> str:
    """Return a clause that asks whether one of these was meant; nothing where there are none."""
    return f"; did you mean {' or '.join(names)}?" if names else ""


def alike(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three known words that look like `name`, the likeliest first."""
    by_folded = {word.lower(): word for word in known}
    near = difflib.get_close_matches(name.lower(), by_folded, n=3, cutoff=0.7)
    if not near and len(name) > 2:  # the neighbours of `n9` are all the other nodes
        near = [word for word in by_folded if looks_like(name, word)][:3]  # `wbe` shares too little with `web`
    return [by_folded[word] for word in near]


class KnownPods(NamedTuple):
    """The pods that the scheduler knows."""

    keys: tuple[str, ...] = ()
    """`namespace/name`."""
    workloads: tuple[str, ...] = ()
    """For the first of these, those that are on nodes, their workloads as `Kind/name`; empty for none."""

    def hint(self, key: str) -> str:
        """Return a clause that says which pods or workload may have been meant, or nothing."""
        namespace, _, name = key.partition("/")
        for each, workload in zip(self.keys, self.workloads, strict=False):
            if each.startswith(f"{namespace}/") and workload.endswith(f"/{name}"):
                return f"; {name} is a {workload.partition('/')[0]}: {workload} tells of its pods"
        if elsewhere := [each for each in self.keys if each.endswith(f"/{name}")]:
            return meant(elsewhere[:SHOWN])
        here = [each.partition("/")[2] for each in self.keys if each.startswith(f"{namespace}/")]
        if longer := [each for each in here if each.startswith(f"{name}-")]:
            return meant(longer[:SHOWN])
        pairs = zip(self.keys, self.workloads, strict=False)
        workloads = {each.rpartition("/")[2]: each for key, each in pairs if each and key.startswith(f"{namespace}/")}
        return meant([workloads[each] for each in alike(name, workloads)]) or nearest(name, here)


def looks_like(name: str, meant: str) -> bool:
    """Say whether a name is another one misspelt by a letter or two, or written in CamelCase.

    Short words have many neighbours (`find` is one letter from `bind`): for them one letter must do.
    """
    ours, theirs = name.replace("_", "").lower(), meant.replace("_", "").lower()
    return ours[:1] == theirs[:1] and _distance(ours, theirs) <= (1 if len(theirs) < 8 else 2)


def _distance(a: str, b: str) -> int:
    """Return how many letters must be put in, taken out, changed or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        before, last, row = row, before, [i]
        for j, other in enumerate(b, 1):
            steps = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and other == a[i - 2]:
                steps = min(steps, last[j - 2] + 1)
            row.append(steps)
    return row[-1]
