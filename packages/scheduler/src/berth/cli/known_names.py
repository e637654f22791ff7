"""Which pods, nodes and zones there are, as the scheduler in use knows them: to say what was meant, to complete names.

Neither is worth an error: where the scheduler cannot be asked, or does not tell, no name is known. Completion asks a
scheduler of this machine only, or whom `--server` names, since somebody waits for it with a finger on the key.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from berth.api.near_names import KnownPods
from berth.api.user_error import UserError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from berth.cli.scheduler_in_use import SchedulerAddress, SchedulerInUse

LISTED = 500
"""So many names are asked of an API server at most, and for so long:"""
PATIENCE_S = 3.0
Json = dict[str, Any]
Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def pods_known_to(scheduler: "SchedulerInUse") -> KnownPods:
    """Ask for the pods on nodes, and for those that are pending."""
    placed, queued = _asked(scheduler, "/debug/pods", "/debug/queue")
    with contextlib.suppress(KeyError, TypeError, IndexError):
        spaces, workloads = placed["namespaces"], placed["workloads"]
        pairs = zip(spaces["of"], placed["names"], strict=True)
        keys = [f"{spaces['names'][at]}/{name}" for at, name in pairs]
        waiting = [each["pod"] for each in queued.get("pods") or ()]
        return KnownPods((*keys, *waiting), tuple(workloads["names"][at] for at in workloads["of"]))
    return KnownPods()


def nodes_known_to(scheduler: "SchedulerInUse") -> tuple[str, ...]:
    """Ask for the names of the nodes."""
    return tuple(_asked(scheduler, "/debug/nodes")[0].get("names") or ())


def _asked(scheduler: "SchedulerInUse", *paths: str) -> list[Json]:
    """Return what is answered to each; nothing where that is an error."""
    from berth.cli.scheduler_in_use import SchedulerQuestion

    try:
        answers = scheduler.ask_all([SchedulerQuestion(path, "names") for path in paths])
    except click.ClickException:
        return [{}] * len(paths)
    return [{} if isinstance(answer, click.ClickException) else answer for answer in answers]


# -- completion --------------------------------------------------------------------------------------------------------


def complete_pod(context: click.Context, _option: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Complete the name of a pod in the namespace that was typed, or NAMESPACE/NAME."""
    from berth.cli.kubectl import is_plugin, namespace_in_use, typed_for

    namespace = (
        typed_for(context, "namespace") or (namespace_in_use(context) if is_plugin(context) else "") or "default"
    )

    def names(scheduler: "SchedulerInUse") -> Iterator[str]:
        for key in pods_known_to(scheduler).keys:
            yield key if "/" in begun else key.removeprefix(f"{namespace}/")

    return _completed(context, begun, names, ("Pod", namespace))


def complete_node(context: click.Context, _option: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Complete the name of a node."""
    return _completed(context, begun, nodes_known_to, ("Node", ""))


def complete_zone(context: click.Context, _option: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Complete the name of a zone."""

    def names(scheduler: "SchedulerInUse") -> Iterable[str]:
        return (_asked(scheduler, "/debug/nodes")[0].get("zones") or {}).get("names") or ()

    return _completed(context, begun, names)


def _completed(
    context: click.Context,
    begun: str,
    names: "Callable[[SchedulerInUse], Iterable[str]]",
    listed: tuple[str, str] | None = None,
) -> "list[CompletionItem]":
    """Return the names that begin so; kubectl's users have those of the API server, of a kind in a namespace."""
    from click.shell_completion import CompletionItem

    from berth.cli.kubectl import is_plugin, typed_for
    from berth.cli.scheduler_in_use import SchedulerAddress, SchedulerInUse

    if context.params.get("cluster"):
        return []  # a cluster in files, which it would take too long to read
    found: list[str] = []
    with contextlib.suppress(click.ClickException, UserError):
        typed = SchedulerAddress(**{name: typed_for(context, name) for name in SchedulerAddress._fields})
        known = names(SchedulerInUse(typed, is_here=True))
        if listed is not None and is_plugin(context):
            known = [*known] or _listed(typed, *listed)
        found = [name for name in known if name.startswith(begun)]
    return [CompletionItem(name) for name in sorted(set(found))]


def _listed(address: "SchedulerAddress", kind: str, namespace: str) -> list[str]:
    """Return the names of the first few hundred objects of a kind at the API server; none where it does not tell."""
    import asyncio

    import msgspec

    from berth.api.errors import TransportError
    from berth.api.resources import RESOURCES
    from berth.cli.scheduler_in_use import load
    from berth.kube.http.client import HttpTransport

    async def ask() -> bytes:
        transport = HttpTransport(load(address))
        try:
            async with asyncio.timeout(PATIENCE_S):
                return bytes(await transport.list(RESOURCES[kind], namespace=namespace, limit=LISTED))
        finally:
            await transport.close()

    try:
        items = msgspec.json.decode(asyncio.run(ask())).get("items") or ()
        return [each["metadata"]["name"] for each in items]
    except (TransportError, TimeoutError, msgspec.DecodeError, KeyError):
        return []
