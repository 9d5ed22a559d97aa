"""A real kube-apiserver and etcd from a folder of binaries, and the ways to prove to it who one is."""

from __future__ import annotations

import contextlib
import secrets
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.processes import Switched, free_ports, wait_for


@dataclass(frozen=True)
class Server:
    """An API server that is up.

    Attributes:
        folder: where its files are: an administrator's `kubeconfig`, `sa.key`, and of whom it believes, `ca.crt` and
            `ca.key`.
        url: where it answers.
        certificate: what it shows; it signs itself.
        api: its process.
        etcd: that of its storage.
    """

    folder: Path
    url: str
    certificate: Path
    api: Switched
    etcd: Switched
    token: str

    def wait_ready(self) -> None:
        """Wait until it is ready, at its start or after one of its processes was started anew."""
        what = "kube-apiserver to be ready"
        wait_for(lambda: is_ready(self.url, self.token), what, self.api.process, self.api.log)

    def restart(self, process: Switched, seconds: float) -> None:
        """Kill one of the two, and have it back, and the API server ready, after so many seconds without it."""
        process.off()
        time.sleep(seconds)
        process.on()
        self.wait_ready()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.folder / "kubeconfig"

    def kubeconfig_of(self, user: str, *groups: str) -> Path:
        """Write a kubeconfig for a user in groups, who shows a certificate as kubelets and controllers do."""
        stem = self.folder / user.replace(":", "-")
        key, asked, shown = (stem.with_suffix(f".{kind}") for kind in ("key", "csr", "crt"))
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        _openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", subject, "-keyout", key, "-out", asked)
        signed_by = ["-CA", self.folder / "ca.crt", "-CAkey", self.folder / "ca.key", "-CAcreateserial"]
        _openssl("x509", "-req", "-in", asked, *signed_by, "-days", "30", "-out", shown)
        kubeconfig = stem.with_suffix(".kubeconfig")
        credentials = {"client-certificate": str(shown), "client-key": str(key)}
        _write(kubeconfig, self.url, credentials, self.certificate)
        return kubeconfig


@contextlib.contextmanager
def beside(server: Server, storage: str = "") -> Iterator[Server]:
    """One more API server on the same storage, which it may reach at another address; both show one certificate."""
    (port,) = free_ports(1)
    command = changed(server.api.command, "--secure-port", str(port))
    if storage:
        command = changed(command, "--etcd-servers", storage)
    with Switched(command, server.folder / f"apiserver-{port}.log") as api:
        other = replace(server, url=f"https://127.0.0.1:{port}", api=api)
        other.wait_ready()
        yield other


def changed(command: Sequence[str], option: str, value: str) -> list[str]:
    """A command with another value of an option."""
    at = command.index(option) + 1
    return [*command[:at], value, *command[at + 1 :]]


FEATURE_GATES = "GenericWorkload=true,DRAWorkloadResourceClaims=true"
"""What is off in Kubernetes 1.36 and read where it is served: pod groups, and claims of theirs."""


@contextlib.contextmanager
def served(folder: Path, assets: Path, arguments: Sequence[str] = ()) -> Iterator[Server]:
    """A kube-apiserver, with further arguments, and its etcd."""
    token = secrets.token_hex(16)
    etcd_port, peer_port, api_port = free_ports(3)
    (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    etcd_url, peer_url = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
    key, authority = str(folder / "sa.key"), folder / "ca.crt"
    _openssl("genrsa", "-out", key, "2048")
    made = ["-newkey", "rsa:2048", "-nodes", "-keyout", folder / "ca.key", "-subj", "/CN=e2e", "-days", "30"]
    _openssl("req", "-x509", *made, "-out", authority)
    etcd = [
        str(assets / "etcd"), "--data-dir", str(folder / "etcd"), "--log-level", "error", "--unsafe-no-fsync",
        "--listen-client-urls", etcd_url, "--advertise-client-urls", etcd_url, "--listen-peer-urls", peer_url,
        "--initial-advertise-peer-urls", peer_url, "--initial-cluster", f"default={peer_url}",
    ]  # fmt: skip
    apiserver = [
        str(assets / "kube-apiserver"), "--etcd-servers", etcd_url, "--bind-address", "127.0.0.1",
        "--secure-port", str(api_port), "--cert-dir", str(folder / "certs"), "--client-ca-file", str(authority),
        "--service-cluster-ip-range", "10.0.0.0/24", "--service-account-issuer", "https://kubernetes.default.svc",
        "--service-account-key-file", key, "--service-account-signing-key-file", key,
        "--token-auth-file", str(folder / "tokens.csv"),
        "--feature-gates", FEATURE_GATES,
        "--runtime-config", "scheduling.k8s.io/v1alpha2=true", *arguments,
    ]  # fmt: skip
    with (
        Switched(etcd, folder / "etcd.log") as storage,
        Switched(apiserver, folder / "apiserver.log") as api,
    ):
        url = f"https://127.0.0.1:{api_port}"
        server = Server(folder, url, folder / "certs" / "apiserver.crt", api=api, etcd=storage, token=token)
        write_kubeconfig(server.kubeconfig, server.url, token, server.certificate)
        server.wait_ready()
        yield server


def is_ready(server: str, token: str) -> bool:
    """Whether an API server says that it is ready, and can say what it serves, which it cannot do at once."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"}
    requests = [urllib.request.Request(f"{server}/{path}", headers=headers) for path in ("readyz", "openapi/v2")]
    try:
        for request in requests:
            with urllib.request.urlopen(request, timeout=5, context=trusting) as response:
                if response.status != 200:
                    return False
    except OSError:  # not listening yet, or an answer that says no
        return False
    return True


def write_kubeconfig(path: Path, server: str, token: str, authority: Path) -> None:
    """Write a kubeconfig with a token, for a server whose certificate signs itself."""
    _write(path, server, {"token": token}, authority)


def _write(path: Path, server: str, credentials: dict[str, Any], authority: Path) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "e2e", "user": credentials}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
    }
    path.write_text(yaml.safe_dump(document))


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
