"""An API server on loopback that answers as each test wants, and certificates made for one test."""

import datetime
import ipaddress
import ssl
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from packages.scheduler.tests.kube.fakes import settle

NOW = datetime.datetime.now(datetime.UTC)


@asynccontextmanager
async def serving(handler, ssl_context=None):
    """Give every request to `handler`; yields the server's URL."""

    async def dispatch(request):
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", dispatch)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if ssl_context else 'http'}://127.0.0.1:{port}"
    finally:
        # What was accepted last belongs to the runner, which closes it, only some turns of the loop later.
        await settle()
        await runner.cleanup()


class Certificates:
    """A CA, and what it signed, as PEM files in a directory."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._ca_key = ec.generate_private_key(ec.SECP256R1())
        self._ca_name = name("test CA")
        ca = self._sign(self._ca_name, self._ca_key, [], is_ca=True)
        self.ca = self._write("ca.crt", pem(ca))

    def issue(self, common_name, hosts=("127.0.0.1",)):
        """Certificate and key files for a name."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name(common_name), key, hosts)
        return self._write(f"{common_name}.crt", pem(certificate)), self._write(f"{common_name}.key", key_pem(key))

    def server_context(self, hosts=("127.0.0.1",), ask_client=False):
        certificate, key = self.issue("server", hosts)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if ask_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context

    def _sign(self, subject, key, hosts, is_ca=False):
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._ca_name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - datetime.timedelta(hours=1))
            .not_valid_after(NOW + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([alternative(host) for host in hosts]), False)
        return builder.sign(self._ca_key, hashes.SHA256())

    def _write(self, file_name, data):
        path = self.directory / file_name
        path.write_bytes(data)
        return path


def name(common_name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def alternative(host):
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key, password=None):
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
