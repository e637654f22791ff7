"""A plan as commands that a person can paste into a shell: kubectl, and nothing else but `grep` and `cut`.

They are all that the plan needs: cordons so that the scheduler goes along, evictions through the eviction API, which
asks the disruption budgets once more, and waiting for the replacement after each.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

import msgspec

from berth_workbench.planning.rebalance.plan import PlanStep, RebalancePlan, in_groups

TIMEOUT = "10m"
"""How long a command waits for a replacement."""
PLACE = "NAME"
"""Where a name that only the shell knows goes; no namespace has capitals."""
WAITS_FOR = ("ReplicaSet", "StatefulSet")
"""The controllers whose status says how many of their pods are ready."""
VALID_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""What names of objects are in Kubernetes (RFC 1123). A file may have others, and kubectl takes some for flags."""
LONGEST_NAME = 253


def commands_of(plan: RebalancePlan) -> list[str]:
    """Return the lines of a shell script; it ends at the first command that fails."""
    lines = ["set -e"]
    for number, group in enumerate(in_groups(plan.steps), 1):
        lines.append(_comment(f"{number}. {_told(group)}"))
        wrong = {step: name for step in group if (name := _wrong_name(step)) is not None}
        lines += [
            _comment(f"left out: {name!r} is not a valid name in Kubernetes; do this step by hand")
            for name in wrong.values()
        ]
        lines += _commands([step for step in group if step not in wrong])
    return lines


def _wrong_name(step: PlanStep) -> str | None:
    """Return a name that a step's commands would have in them and that no object can have; None if there is none."""
    if step.action == "evict":
        namespace, _, name = step.pod.partition("/")
        owner = [step.workload.partition("/")[2]] if step.workload else []
        names = [namespace, name, step.node, *owner]
    else:
        names = [] if step.action == "create" else [step.node]
    return next((name for name in names if len(name) > LONGEST_NAME or not VALID_NAME.fullmatch(name)), None)


def _told(group: Sequence[PlanStep]) -> str:
    step = group[0]
    if step.action == "evict":
        return f"{step.pod} from {step.node} to {step.to}: {step.reason}"
    return f"{step.action} {', '.join(each.node or each.pod for each in group)}: {step.reason}"


def _commands(group: Sequence[PlanStep]) -> Iterator[str]:
    if not group:
        return
    step = group[0]
    if step.action == "create":
        by = f" by applying the {step.workload.replace('/', ' ')}" if step.workload else ""
        yield _comment(f"now create {step.pod}{by}, and wait until it is on {step.to}")
    elif step.action == "evict":
        yield from _eviction(step)
    else:
        yield shlex.join(["kubectl", step.action, *(each.node for each in group)])


def _eviction(step: PlanStep) -> Iterator[str]:
    namespace, _, name = step.pod.partition("/")
    kind, _, owner = step.workload.partition("/")
    within = f"-n {shlex.quote(namespace)}"
    if step.again and kind != "StatefulSet":
        # The pod has been replaced before, and its replacement's name is not known beforehand.
        on_node = f"--field-selector spec.nodeName={shlex.quote(step.node)} -o name"
        pattern = shlex.quote(f"^pod/{owner.replace('.', '[.]')}-")
        yield f"POD=$(kubectl get pods {within} {on_node} | grep {pattern} | head -n 1 | cut -d / -f 2)"
        before, after = (shlex.quote(part) for part in _body(PLACE, namespace).split(PLACE, 1))
        path = shlex.quote(f"/api/v1/namespaces/{namespace}/pods/")
        pod = '"$POD"'
        yield f"echo {before}{pod}{after} | kubectl create -f - --raw {path}{pod}/eviction"
    else:
        pod, path = shlex.quote(name), f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        yield f"echo {shlex.quote(_body(name, namespace))} | kubectl create -f - --raw {shlex.quote(path)}"
    yield f"kubectl wait {within} --for=delete pod/{pod} --timeout={TIMEOUT} || true"
    if kind in WAITS_FOR and step.replicas:
        ready = f"--for=jsonpath='{{.status.readyReplicas}}'={step.replicas}"
        yield f"kubectl wait {within} {ready} {kind.lower()}/{shlex.quote(owner)} --timeout={TIMEOUT}"
    else:
        yield _comment(f"wait until the pod in place of {step.pod} runs on {step.to}")


def _body(name: str, namespace: str) -> str:
    metadata = {"name": name, "namespace": namespace}
    return msgspec.json.encode({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}).decode()


def _comment(text: str) -> str:
    """A comment of one line, whatever the names in it."""
    return "# " + "".join(char if char.isprintable() else "?" for char in text)
