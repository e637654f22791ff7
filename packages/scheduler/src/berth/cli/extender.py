"""`berth extender`: serves a profile's plugins to a stock kube-scheduler, over its extender protocol.

A scheduler configuration in, for its plugins and their args; HTTP out. Exit code 0 when told to stop, 1 when it cannot
go on, 2 when the configuration cannot be used.
"""

import asyncio
import ipaddress
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from berth.cli.option_rules import never_with
from berth.cli.setup import EXIT_BAD_CONFIGURATION, config_option, gates_option, plugin_option, read_setup
from berth.config.errors import ConfigError
from berth.config.types import SchedulerConfiguration

if TYPE_CHECKING:
    from berth.framework.registry import Registry
    from berth.kube.credentials.sources import ClusterAccess

EXIT_FAILURE = 1

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _Unusable(Exception):  # noqa: N818 - it is only ever shown
    """Something given on the command line cannot be used."""


@click.command("extender", short_help="Our plugins for a stock kube-scheduler, as an extender.")
@config_option
@plugin_option
@never_with("without_cluster", "kubeconfig", "context", because="which follows none")
@click.option("--profile", default="", metavar="NAME", help="The schedulerName to serve; by default the first.")
@gates_option
@click.option("--kubeconfig", default="", metavar="FILE", help="The cluster to follow; found as `berth run` does.")
@click.option("--context", default="", metavar="NAME", help="The kubeconfig context to use.")
@click.option("--without-cluster", is_flag=True, help="Follow no cluster: judge the nodes that requests bring.")
@click.option("--bind-address", default="127.0.0.1", show_default=True, metavar="IP", help="Address to listen on.")
@click.option(
    "--port", default=8888, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one."
)
@click.option("--tls-cert-file", default=None, type=_FILE, help="Serve HTTPS with this certificate.")
@click.option("--tls-private-key-file", default=None, type=_FILE, help="The certificate's key.")
@click.option("--client-ca-file", default=None, type=_FILE, help="Only answer clients with a certificate of this CA.")
@click.option("-v", "verbosity", default=0, type=click.IntRange(0), help="How much to log; 0 is least.")
def command(
    config_file: str,
    plugins: tuple[str, ...],
    profile: str,
    feature_gates: str,
    kubeconfig: str,
    context: str,
    without_cluster: bool,
    bind_address: str,
    port: int,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    client_ca_file: Path | None,
    verbosity: int,
) -> None:
    """Serve a profile's plugins to a stock kube-scheduler, as an extender.

    Answers POST /filter, /prioritize, /preempt and /bind. Enable only your own plugins in the profile: kube-scheduler
    runs the default ones itself. In kube-scheduler's configuration:

    \b
      extenders:
      - urlPrefix: http://127.0.0.1:8888
        filterVerb: filter
        prioritizeVerb: prioritize
        weight: 1
        preemptVerb: preempt
        nodeCacheCapable: true     # it is followed here, too: names are enough

    Set bindVerb: bind where the profile's Bind plugins are to bind. With --without-cluster leave nodeCacheCapable out:
    nodes then come whole with each request, and nothing is known of the pods on them. Anybody who can connect may ask
    and have pods bound: beyond loopback, use --client-ca-file.
    """
    from berth.runtime.observing import logs

    logs.set_up("text", verbosity)
    try:
        config, registry = read_setup(config_file, plugins, feature_gates)
        config = _of_profile(config, profile)
        access = None if without_cluster else _access(kubeconfig or config.client_connection.kubeconfig, context)
        _check_address(bind_address)
        tls = _tls(tls_cert_file, tls_private_key_file, client_ca_file)
        asyncio.run(_serve(config, registry, access, bind_address, port, tls))
    except ConfigError as error:
        _fail(str(error if error.source else error.located(config_file or "the configuration")), EXIT_BAD_CONFIGURATION)
    except _Unusable as error:
        _fail(str(error), EXIT_BAD_CONFIGURATION)


def _fail(message: str, code: int) -> None:
    click.echo(f"berth extender: {message}", err=True)
    sys.exit(code)


def _of_profile(config: SchedulerConfiguration, profile: str) -> SchedulerConfiguration:
    """The configuration with the one profile that is served."""
    names = [one.scheduler_name for one in config.profiles]
    chosen = profile or names[0]
    if chosen not in names:
        raise _Unusable(f"--profile: there is no profile {chosen!r}; the profiles are {', '.join(names)}")
    return msgspec.structs.replace(config, profiles=(config.profiles[names.index(chosen)],))


def _access(kubeconfig: str, context: str) -> "ClusterAccess":
    from berth.kube.credentials.access import load_access
    from berth.kube.credentials.kubeconfig import KubeconfigError

    try:
        return load_access(kubeconfig, context=context)
    except KubeconfigError as error:
        raise _Unusable(f"{error}; or use --without-cluster") from None


def _check_address(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise _Unusable(f"--bind-address: {text!r} is not an IP address") from None


def _tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> ssl.SSLContext | None:
    """The server's TLS context, None for plain HTTP."""
    if (certificate is None) != (key is None):
        raise _Unusable("--tls-cert-file and --tls-private-key-file are given together")
    if certificate is None or key is None:
        if client_ca is not None:
            raise _Unusable("--client-ca-file needs --tls-cert-file and --tls-private-key-file")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
    except (ssl.SSLError, OSError) as error:
        raise _Unusable(f"the certificates cannot be used: {error}") from None
    return context


def is_open(host: str, tls: ssl.SSLContext | None) -> bool:
    """Say whether requests from other machines are answered without a client certificate."""
    asks_who = tls is not None and tls.verify_mode == ssl.CERT_REQUIRED
    return not asks_who and not ipaddress.ip_address(host).is_loopback


async def _serve(
    config: SchedulerConfiguration,
    registry: "Registry",
    access: "ClusterAccess | None",
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
) -> None:
    """Serve until told to stop."""
    from berth.cli.signals import stop_on_signals
    from berth.kube.http.client import HttpTransport
    from berth.kube.http.rate_limit import RateLimit
    from berth.runtime.serving.extender_server import ExtenderServer
    from berth.runtime.serving.options import PortTaken

    stop = stop_on_signals()
    client = config.client_connection
    limit = RateLimit(client.qps, client.burst)
    transport = None if access is None else HttpTransport(access, rate_limit=limit, user_agent="berth-extender")
    server = ExtenderServer(config, registry, transport, host=host, port=port, tls=tls)
    try:
        await server.start()
        name = config.profiles[0].scheduler_name
        followed = "no cluster" if access is None else access.description
        if is_open(host, tls):
            click.echo(f"warning: whoever reaches {host} may have pods bound; use --client-ca-file", err=True)
        click.echo(f"serving the plugins of profile {name} at {server.address}, following {followed}; Ctrl-C ends it")
        await server.run(stop)
    except PortTaken as error:
        _fail(str(error), EXIT_FAILURE)
    finally:
        await server.stop()
        if transport is not None:
            await transport.close()
