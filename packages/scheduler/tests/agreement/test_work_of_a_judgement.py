"""What judging a pod costs does not grow with how long it has waited, or how many others were bound meanwhile."""

from berth.core.builders import make_node, make_pod
from packages.scheduler.tests.agreement.observing import Bystander
from tests.effort import instructions


def work_of_the_last(waiting: int, *, sampled: bool = False) -> int:
    """The instructions for the last of so many pods that came at once, and were bound one after the other."""
    nodes = [make_node(f"n{number}").capacity(cpu="64", memory="64Gi", pods="1100") for number in range(120)]
    look = Bystander(*nodes, config={"percentageOfNodesToScore": 5}, ahead=1)
    pods = [make_pod(f"p{number}").request(cpu="10m") for number in range(waiting)]
    for pod in pods:
        look.put(pod)
    for number, pod in enumerate(pods[:-1]):
        look.bind(pod, f"n{number % (110 if sampled else 120)}")
    return instructions(lambda: look.bind(pods[-1], "n1"))


def test_of_a_pod_that_has_waited_beside_many() -> None:
    assert work_of_the_last(800) < 1.2 * work_of_the_last(100)


def test_of_a_pod_that_is_sampled_and_has_waited_beside_many() -> None:
    assert work_of_the_last(800, sampled=True) < 1.2 * work_of_the_last(100, sampled=True)
