"""A port of this machine on which an API server answers, which can be shut as politely or as rudely as one wants.

The certificate for HTTPS is made for one run, and trusted by the cluster's kubeconfig.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Self

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tutti_sim.http.plain import Handler, PlainConnection
from tutti_sim.http.rendering import make_request

_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tutti cluster")])
_EARLIER = timedelta(minutes=5)
"""How far the clock of whoever reads it may be behind."""
_LASTS = timedelta(days=30)
_PATIENCE_SECONDS = 1
"""How long answers that are worked on may take when it is shut."""


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """A certificate that is its own authority, and its key; both in PEM."""

    pem: bytes
    key: bytes

    @classmethod
    def made_for(cls, hosts: Sequence[str]) -> Self:
        """Make one for names and addresses, with a new key."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        names = x509.SubjectAlternativeName([_general(host) for host in dict.fromkeys(hosts)])
        # By its key a client that trusts the certificates of two clusters knows which of them it is shown.
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        signed = (
            x509.CertificateBuilder(_NAME, _NAME, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + _LASTS)
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(own, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
            .sign(key, hashes.SHA256())
        )
        encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
        return cls(signed.public_bytes(encoding), private)

    def context(self) -> ssl.SSLContext:
        """Return a context that serves with it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder, "certificate.pem")
            whole.write_bytes(self.key + self.pem)
            context.load_cert_chain(whole)
        return context


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


class Listener:
    """Answers HTTP on an address; opened, shut and opened again on the same port.

    Args:
        port: 0 takes a free one, which is kept from then on.
    """

    def __init__(self, handler: Handler, *, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._context = context
        self._others: web.Server | None = None
        self._plain: set[PlainConnection] = set()
        self._listening: asyncio.Server | None = None
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"{'https' if self._context else 'http'}://{self.host}:{self.port}"

    async def open(self) -> None:
        """Begin to answer."""
        others = self._others = web.Server(self._handler, request_factory=make_request, access_log=None)
        self._listening = await asyncio.get_running_loop().create_server(
            partial(PlainConnection, self._handler, others, self._plain),
            self.host, self.port, ssl=self._context, backlog=1024,
        )  # fmt: skip
        self.port = self._listening.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Break all connections, as a server does that is killed."""
        for plain in list(self._plain):
            plain.abort()
        for connection in self._others.connections if self._others is not None else ():
            if connection.transport is not None:
                connection.transport.abort()

    async def shut(self) -> None:
        """Answer no more."""
        if self._listening is None or self._others is None:
            return
        self._listening.close()
        for plain in list(self._plain):
            plain.close()
        self._others.pre_shutdown()
        await self._others.shutdown(_PATIENCE_SECONDS)
        working = [plain.answering for plain in self._plain if plain.answering is not None]
        if working:
            await asyncio.wait(working, timeout=_PATIENCE_SECONDS)
        for plain in list(self._plain):
            plain.abort()
        self._listening = self._others = None
