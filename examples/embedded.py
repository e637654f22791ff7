"""The engine in a program of your own: nodes and pods in, decisions with their reasons out. No cluster is needed.

python examples/embedded.py
"""

import berth

NODES = [
    {"kind": "Node", "metadata": {"name": name, "labels": {"disk": disk}},
     "status": {"capacity": {"cpu": cpu, "memory": "16Gi", "pods": "110"}}}
    for name, disk, cpu in (("small", "ssd", "4"), ("large", "hdd", "16"))
]  # fmt: skip


def pod(name: str, cpu: str, **spec: object) -> dict[str, object]:
    """A pod of one container that requests so much CPU and 1 GiB."""
    requests = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "main", "image": "app", "resources": {"requests": requests}}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def main() -> None:
    """Place three pods, and say why each went where it went."""
    scheduler = berth.Scheduler()
    scheduler.add(*NODES)
    for wanted in (
        pod("web", "1"),
        pod("database", "2", nodeSelector={"disk": "ssd"}),
        pod("too-large", "64"),
    ):
        result = scheduler.schedule(wanted)
        print(result.summary)
        for node, total in sorted(result.totals.items()):
            print(f"    {node}: {total} points {result.scores[node]}")
        for node, said in sorted(result.reasons.items()):
            print(f"    {node}: " + "; ".join(f"{each.plugin}: {', '.join(each.reasons)}" for each in said))
    print(scheduler.placements)


if __name__ == "__main__":
    main()
