"""The certificate that an embedded cluster serves HTTPS with: made for one run, and trusted by its kubeconfig."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tutti cluster")])
_EARLIER = timedelta(minutes=5)
"""How far the clock of whoever reads it may be behind."""
_LASTS = timedelta(days=30)


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
