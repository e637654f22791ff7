"""`berth explain POD`: why a pod went where it went, or why it is pending, as the running scheduler tells it.

Asks the scheduler's `/debug/decisions/<namespace>/<pod>`, wherever it runs (`reaching`), and prints tables, or with
`--json` what was answered. Exit code 1 when nothing is known of the pod or the scheduler does not answer.
"""

import asyncio
import contextlib
import http.client
import json
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import click

from berth.api.addresses import is_loopback
from berth.api.redaction import redact_url
from berth.cli.what_would_help import what_would_help_options
from berth.runtime.observing.logs import legible

if TYPE_CHECKING:
    from rich.console import Console

    from berth.cli.reaching import Answered
    from berth.kube.credentials.sources import ClusterAccess

PLAIN_SERVER = "http://127.0.0.1:10259"
"""Where `berth up` serves."""
TIMEOUT_S = 10.0
WIDTH_WITHOUT_TERMINAL = 150
NAMES_IN_A_CELL = 8

Json = dict[str, Any]


@click.command("explain", short_help="Why a pod went where it went, or why it is pending.")
@click.argument("pod", default="")
@click.option("-n", "--namespace", default="default", show_default=True, help="The pod's namespace.")
@click.option(
    "--server",
    default="",
    envvar="BERTH_SCHEDULER",
    metavar="URL",
    help="Where the scheduler serves; by default it is looked for on this machine, then in the cluster.",
)
@click.option(
    "--certificate-authority",
    default="",
    metavar="FILE",
    help="With an https:// --server: the certificate, or its authority's, that is expected there.",
)
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="The cluster, and the credentials to ask with; by default those that kubectl would use. Where the scheduler "
    "does not remember the pod, what this cluster has on record is told.",
)
@click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use.")
@click.option(
    "--lease", default="", metavar="NAMESPACE/NAME", help="The lease whose holder to ask (kube-system/kube-scheduler)."
)
@click.option(
    "--node", "nodes", multiple=True, metavar="NAME", help="Show this node plugin by plugin; may be repeated."
)
@click.option("--all-nodes", is_flag=True, help="Score and name every node, not only the best and the first ones.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@what_would_help_options
def command(
    pod: str,
    namespace: str,
    server: str,
    certificate_authority: str,
    kubeconfig: str,
    context: str,
    lease: str,
    nodes: tuple[str, ...],
    all_nodes: bool,
    as_json: bool,
) -> None:
    """Tell why POD went where it went, or why it is pending.

    POD is a name, NAMESPACE/NAME, or pod/NAME as kubectl prints it. The scheduler remembers the decisions about the
    most recent pods only.
    """
    before, slash, name = pod.partition("/")
    if slash:
        pod = name
        namespace = namespace if before in ("pod", "pods") else before
    try:
        way = _Way(server, certificate_authority, kubeconfig, context, lease)
        report = _ask(way, namespace, pod, nodes, all_nodes)
    except click.ClickException as unknown:
        if not kubeconfig:
            raise
        _tell_record(kubeconfig, namespace, pod, unknown.message, as_json)
        return
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    from rich.console import Console

    console = Console()
    show(report, console if console.is_terminal else Console(width=WIDTH_WITHOUT_TERMINAL))


class _Way(NamedTuple):
    """How the scheduler is to be reached, as the options say."""

    server: str
    certificate_authority: str
    kubeconfig: str
    context: str
    lease: str


def _ask(way: _Way, namespace: str, pod: str, nodes: tuple[str, ...], all_nodes: bool) -> Json:
    """Ask what the scheduler knows; if it knows nothing, end the command with a sentence."""
    from berth.cli.reaching import UnreachableError

    query = [("node", node) for node in nodes] + ([("allNodes", "true")] if all_nodes else [])
    path = f"/debug/decisions/{quote(namespace, safe='')}/{quote(pod, safe='')}?{urlencode(query)}"
    try:
        answered = asyncio.run(_reach(way, path))
    except UnreachableError as error:
        raise click.ClickException(f"{error}; is `berth run` up? --server says where it serves") from None
    try:
        found: Json = json.loads(answered.body)
        is_told = isinstance(found, dict)
    except ValueError:
        is_told = False
    if answered.status == 200 and is_told:
        return found
    if answered.status == 404 and is_told and isinstance(found.get("error"), str):
        raise click.ClickException(f"{found['error']}; check the name and --namespace")
    said = f": {found['message']}" if is_told and isinstance(found.get("message"), str) else ""
    raise click.ClickException(f"the scheduler answered {answered.status} when asked for {namespace}/{pod}{said}")


async def _reach(way: _Way, path: str) -> "Answered":
    """Ask at the server that was named; or else the schedulers of this machine, then the cluster's."""
    from berth.cli import reaching
    from berth.cli.local_record import read_records, record_directory

    if way.server.startswith("https://"):
        authority = _read_authority(way.certificate_authority)
        return await reaching.ask_at(way.server, path, authority, _access(way))
    if way.server:
        return await asyncio.to_thread(_ask_plainly, way.server, path)
    access, problem = None, ""
    try:
        access = _access(way)
    except click.ClickException as error:
        problem = error.message
    for record in read_records(record_directory()):
        if access is None or record.cluster == access.server:
            with contextlib.suppress(reaching.UnreachableError):
                return await reaching.ask_local(record, path, access)
    # What serves there may be the scheduler of another cluster, so it is believed only if it knows the pod.
    plain = None
    is_near = access is None or is_loopback(urlsplit(access.server).hostname or "")
    if not way.lease and (is_near or not way.kubeconfig):
        with contextlib.suppress(reaching.UnreachableError):
            plain = await asyncio.to_thread(_ask_plainly, PLAIN_SERVER, path)
    if plain is not None and (plain.status == HTTPStatus.OK or access is None):
        return plain
    if access is None:
        raise reaching.UnreachableError(f"no scheduler answers on this machine, and {problem}")
    try:
        return await reaching.ask_in_cluster(access, path, way.lease)
    except reaching.UnreachableError:
        if plain is None:
            raise
        return plain


def _access(way: _Way) -> "ClusterAccess":
    from berth.kube.credentials.access import load_access
    from berth.kube.credentials.kubeconfig import KubeconfigError

    try:
        return load_access(way.kubeconfig, context=way.context)
    except KubeconfigError as error:
        raise click.ClickException(str(error)) from None


def _read_authority(file: str) -> str:
    try:
        return Path(file).read_text("ascii") if file else ""
    except (OSError, ValueError) as error:
        raise click.ClickException(f"--certificate-authority: cannot read {file}: {error}") from None


def _ask_plainly(server: str, path: str) -> "Answered":
    """Ask over plain HTTP, without credentials, as `berth up` and v1.20's --port serve."""
    from berth.cli.reaching import Answered, UnreachableError

    base = server if "://" in server else f"http://{server}"
    try:
        with _opener().open(base.rstrip("/") + path, timeout=TIMEOUT_S) as answer:
            return Answered(answer.status, answer.read())
    except urllib.error.HTTPError as refusal:
        with refusal:
            return Answered(refusal.code, refusal.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise UnreachableError(f"the scheduler at {redact_url(base)} does not answer: {reason}") from None


def _tell_record(kubeconfig: str, namespace: str, pod: str, why: str, as_json: bool) -> None:
    """Print what the cluster has on record instead."""
    from berth.cli.pod_record import NoRecord, read_record, sentences

    try:
        record = read_record(kubeconfig, namespace, pod)
    except NoRecord as error:
        raise click.ClickException(f"{why}; and from the cluster: {error}") from None
    if as_json:
        click.echo(json.dumps(record, indent=2))
        return
    click.echo("\n".join(map(legible, sentences(record))))
    click.echo(f"(only what the cluster has on record: {why})", err=True)


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener without proxies, as the scheduler is on this machine."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


# --- what people see --------------------------------------------------------------------------------------------------


def show(report: Json, console: "Console") -> None:
    """Print a report: the outcome, the scores, the nodes ruled out, and what the pod waits for."""
    report = _legible(report)
    decision, pending = report["decision"], report["pending"]
    if decision is not None:
        _show_outcome(decision, console)
        _show_scores(decision, console)
        _show_rejected(decision, console)
        for node in decision["nodes"]:
            _show_node(node, decision, console)
    if pending is not None:
        _show_pending(pending, console)


def _legible(value: Any) -> Any:
    """A report without control characters for the terminal: anyone who may create pods can put some into messages."""
    if isinstance(value, dict):
        return {name: _legible(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_legible(part) for part in value]
    return legible(value) if isinstance(value, str) else value


def _show_outcome(decision: Json, console: "Console") -> None:
    style = "green" if decision["node"] else "yellow"
    console.print(decision["summary"], style=style, markup=False, highlight=False)
    tries = decision["attempts"]
    console.print(f"decided {decision['time']} by {decision['profile']}, attempt {tries}", markup=False, style="dim")
    post = decision["postFilter"]
    if post is not None and post["reasons"]:
        console.print(f"{post['plugin'] or 'PostFilter'}: {', '.join(post['reasons'])}", markup=False, style="dim")
    for call in decision.get("extenders", ()):
        _show_extender(call, console)


def _show_extender(call: Json, console: "Console") -> None:
    """One call to an extender; its failures stand out."""
    said = call["problem"] or call["note"] or "done"
    ignored = ", ignored" if call["ignored"] else ""
    head = f"extender {call['extender']}, {call['verb']}{' failed' + ignored if call['problem'] else ''}"
    console.print(f"{head}: {said}", markup=False, highlight=False, style="yellow" if call["problem"] else "dim")


def _show_scores(decision: Json, console: "Console") -> None:
    """The best nodes, a column for each plugin."""
    best = decision["best"]
    if not best or best[0]["total"] is None:
        return
    from rich.table import Table

    plugins = list(decision["weights"])
    table = Table(title=f"Scores of the best {len(best)} of {decision['feasibleCount']} nodes", title_justify="left")
    table.add_column("Node", no_wrap=True)
    table.add_column("Total", justify="right")
    for plugin in plugins:
        weight = decision["weights"][plugin]
        table.add_column(plugin if weight == 1 else f"{plugin} x{weight}", justify="right")
    for node in best:
        cells = [str(node["scores"].get(plugin, "")) for plugin in plugins]
        is_chosen = node["node"] == decision["node"]
        table.add_row(node["node"], str(node["total"]), *cells, style="bold green" if is_chosen else "")
    console.print(table)


def _show_rejected(decision: Json, console: "Console") -> None:
    """Why the other nodes were rejected."""
    if not decision["rejected"]:
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Why not the others", title_justify="left")
    for column, justify in (("Nodes", "right"), ("Plugin", "left"), ("Reason", "left"), ("Which", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for group in decision["rejected"]:
        which = _names(group["nodes"], group["count"])
        table.add_row(str(group["count"]), group["plugin"], escape(", ".join(group["reasons"])), which)
    console.print(table)


def _names(names: list[str], count: int) -> str:
    shown = names if len(names) == count and count > 2 * NAMES_IN_A_CELL else names[:NAMES_IN_A_CELL]
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 and shown else "")


def _show_node(node: Json, decision: Json, console: "Console") -> None:
    """One node, plugin by plugin."""
    if node["fits"] is None and not node["rejections"]:
        why = "no such node then, or enough others were found before"
        console.print(f"{node['node']}: was not looked at ({why})", markup=False)
        return
    outcome = {None: "was left out before Filter", True: "fits", False: "does not fit"}[node["fits"]]
    console.print(f"{node['node']}: {outcome}", markup=False, style="bold")
    for said in node["rejections"]:
        console.print(f"  {said['plugin']}: {', '.join(said['reasons'])} ({said['code']})", markup=False)
    for plugin, score in node["scores"].items():
        console.print(f"  {plugin}: {score} (weight {decision['weights'][plugin]})", markup=False)
    if node["total"] is not None:
        console.print(f"  total: {node['total']}", markup=False)


def _show_pending(pending: Json, console: "Console") -> None:
    """In which queue, since when, and what would wake it."""
    tries = "once" if pending["attempts"] == 1 else f"{pending['attempts']} times"
    line = f"pending in the {pending['queue']} queue since {pending['since']}, tried {tries}"
    if pending["gatedBy"]:
        line += f"; held back by {pending['gatedBy']}"
    if pending["backoffUntil"]:
        line += f"; in backoff until {pending['backoffUntil']}"
    console.print(line, markup=False, highlight=False)
    for plugin, events in pending["waitsFor"].items():
        console.print(f"  {plugin} wakes it after: {'; '.join(events)}", markup=False, highlight=False)
