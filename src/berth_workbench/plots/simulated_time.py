"""Draws a simulated time: utilisation, pods that run and wait, and fairness, one below the other."""

from typing import TYPE_CHECKING

from berth_workbench.plots.picture import COLOURS
from berth_workbench.traces.result import SimulatedTime

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(result: SimulatedTime, figure: "Figure") -> None:
    """Fill a figure."""
    hours = [sample.at / 3600 for sample in result.samples]
    use, pods, fair = figure.subplots(3, 1, sharex=True)
    use.plot(hours, [100 * sample.cpu for sample in result.samples], color=COLOURS[0], label="CPU")
    use.plot(hours, [100 * sample.memory for sample in result.samples], color=COLOURS[1], label="memory")
    for name in result.resources:
        use.plot(hours, [100 * sample.resources.get(name, 0.0) for sample in result.samples], label=name)
    use.set_ylabel("% requested")
    use.set_ylim(0, 100)
    use.legend(loc="lower right")
    pods.plot(hours, [sample.running for sample in result.samples], color=COLOURS[0], label="running")
    pods.plot(hours, [sample.waiting for sample in result.samples], color=COLOURS[1], label="waiting")
    pods.set_ylabel("pods")
    pods.set_ylim(bottom=0)
    pods.legend(loc="lower right")
    fair.plot(hours, [sample.fairness for sample in result.samples], color=COLOURS[2])
    fair.set_ylabel("fairness (Jain)")
    fair.set_ylim(0, 1)
    fair.set_xlabel("hours")


def describe(result: SimulatedTime) -> str:
    """The picture in words."""
    if not result.samples:
        return "nothing was measured"
    busiest = max(result.samples, key=lambda sample: sample.cpu)
    crowded = max(result.samples, key=lambda sample: sample.waiting)
    means = ", ".join(f"{name} {share:.0%}" for name, share in {"CPU": result.cpu, **result.resources}.items())
    return (
        f"{result.made} pods over {result.seconds / 3600:.1f} hours. CPU requests are highest at hour "
        f"{busiest.at / 3600:.1f} with {busiest.cpu:.0%}; on average: {means}; at most {crowded.waiting} pods "
        f"wait, at hour {crowded.at / 3600:.1f}; 99 of 100 pods wait at most {result.waits.p99:g} seconds."
    )
