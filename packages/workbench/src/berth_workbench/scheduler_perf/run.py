"""Plays one workload, in process or on a cluster, from beginning to end."""

import asyncio
import gc

from berth.api.errors import TransportError
from berth.config.types import SchedulerConfiguration
from berth.framework.registry import Registry
from berth.kube.credentials.access import load_access
from berth.kube.http.client import HttpTransport
from berth.kube.http.rate_limit import RateLimit
from berth_workbench.scheduler_perf.documents import PerfError, PerfWorkload
from berth_workbench.scheduler_perf.in_process import InProcess
from berth_workbench.scheduler_perf.live import live
from berth_workbench.scheduler_perf.play import PerfFigures, Play


def play_in_process(workload: PerfWorkload, config: SchedulerConfiguration, registry: Registry) -> PerfFigures:
    """Play a workload with a core of this configuration. Raises `PerfError`."""
    site = InProcess(config, registry)
    notes = {name: value for name, value in workload.gates.items() if name not in workload.gates_here}
    said = ", ".join(f"{name}={str(value).lower()}" for name, value in notes.items())
    try:
        figures = asyncio.run(Play(workload, site).figures((f"switches nothing here: {said}",) if said else ()))
    finally:
        site.close()
        gc.unfreeze()
    return figures


def play_live(workload: PerfWorkload, kubeconfig: str) -> PerfFigures:
    """Play a workload on a cluster, whose scheduler is configured by somebody else. Raises `PerfError`."""
    return asyncio.run(_play_live(workload, kubeconfig))


async def _play_live(workload: PerfWorkload, kubeconfig: str) -> PerfFigures:
    transport = HttpTransport(load_access(kubeconfig), rate_limit=RateLimit(qps=-1), user_agent="berth-bench")
    try:
        async with live(transport) as site:
            return await Play(workload, site).figures()
    except TransportError as error:
        raise PerfError(f"{workload.title}: {error}") from None
    finally:
        await transport.close()
