"""Controllers that packages of plugins bring along: what they import, which there are, and how they run.

Kept stable, like `berth.plugin`. `StatusController` is the contract; a class that keeps to it is offered by an entry
point of the group `berth.controllers`. `berth up` runs all that are installed, and `run_controllers` is what a command
of the package calls to run them against any cluster. `docs/plugins/controllers.md` has an example.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points

from berth.api.custom import CustomObject, CustomResource
from berth.api.pod import Pod
from berth.api.quantity import Quantity, milli_value, value
from berth.api.status_controllers import FollowedStatuses, StatusController
from berth.api.user_error import UserError

__all__ = [
    "CustomObject", "CustomResource", "FollowedStatuses", "Pod", "Quantity", "StatusController", "UserError",
    "installed_controllers", "milli_value", "run_controllers", "value",
]  # fmt: skip

GROUP = "berth.controllers"

_log = logging.getLogger("berth.controllers")


def installed_controllers(found: Iterable[EntryPoint] | None = None) -> list[StatusController]:
    """Return the controllers that installed distributions offer, by name; what cannot be used is logged."""
    made: list[StatusController] = []
    for entry in sorted(entry_points(group=GROUP) if found is None else found, key=lambda each: each.name):
        try:
            controller = entry.load()()
            lacking = [name for name in _NEEDED if not hasattr(controller, name)]
        except Exception as error:  # a stranger's module may raise anything
            _log.warning("the controller %s (%s) cannot be used: %s", entry.name, entry.value, error)
            continue
        if lacking:
            _log.warning("the controller %s (%s) cannot be used: it has no %s", entry.name, entry.value, lacking[0])
        elif any(each.resource.name == controller.resource.name for each in made):
            _log.warning("the controller %s (%s) is left out: another one is for its kind", entry.name, entry.value)
        else:
            made.append(controller)
    return made


_NEEDED = ("name", "resource", "group_of", "group_of_pod", "reconcile")


def run_controllers(controllers: Sequence[StatusController], kubeconfig: str = "", context: str = "") -> None:
    """Run controllers until Ctrl-C or SIGTERM: against the cluster of a kubeconfig, or of the pod that this runs in.

    Raises `UserError` where there are no credentials. Leaders are not elected, and need not be: a status follows
    from the cluster alone, and each patch names the version that it was made of.
    """
    from berth.kube.credentials.access import load_access
    from berth.kube.http.client import HttpTransport
    from berth.runtime.status_writer import StatusWriter

    async def run() -> None:
        from berth.cli.signals import stop_on_signals

        stop = stop_on_signals()
        transport = HttpTransport(access, user_agent="berth-controller")
        _log.info("%s at work for %s", ", ".join(each.name for each in controllers), access.description)
        ends = [asyncio.create_task(StatusWriter(transport, controllers).run()), asyncio.create_task(stop.wait())]
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
            await transport.close()

    access = load_access(kubeconfig, context=context)
    asyncio.run(run())
