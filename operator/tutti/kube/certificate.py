"""A serving certificate that is signed by itself: for an embedded cluster, or for webhooks without cert-manager."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# Clocks differ: whoever reads it may be behind.
_EARLIER = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, in PEM."""

    pem: bytes
    key: bytes

    @classmethod
    def make(
        cls,
        hosts: Sequence[str],
        *,
        name: str = "tutti",
        lasts: timedelta = timedelta(days=30),
        now: datetime | None = None,
    ) -> Certificate:
        """Make a certificate, with a new key.

        Args:
            hosts: The names and addresses that are served with it.
            name: Whom it is for.
            lasts: How long it is good from now on.
            now: The time; that of the system unless given.
        """
        names = [_general(host) for host in dict.fromkeys(hosts)]
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = now or datetime.now(UTC)
        # By these a client that trusts two certificates of one name knows which of them it is shown.
        ours = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ours)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + lasts)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(ours, critical=False)
            .add_extension(issuer, critical=False)
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(certificate.public_bytes(serialization.Encoding.PEM), private)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names and addresses that it is for, as `spelled`.

        Raises:
            ValueError: it cannot be read, or is for none.
        """
        try:
            found = self._read().extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except (x509.ExtensionNotFound, x509.DuplicateExtension) as error:
            raise ValueError(f"the certificate does not tell what it is for: {error}") from error
        return tuple(str(one.value) for one in found.value)

    @property
    def ends(self) -> datetime:
        """Until when it is good.

        Raises:
            ValueError: it cannot be read.
        """
        return self._read().not_valid_after_utc

    def _read(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.pem)

    def context(self) -> ssl.SSLContext:
        """Return a context that serves with it.

        Raises:
            ssl.SSLError: The key is not that of the certificate, or one of them cannot be read.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            chain, key = Path(folder, "cert.pem"), Path(folder, "key.pem")
            chain.write_bytes(self.pem)
            key.write_bytes(self.key)
            context.load_cert_chain(chain, key)
        return context


def spelled(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return names and addresses as a certificate that is made for them has them."""
    return tuple(str(_general(host).value) for host in hosts)


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
