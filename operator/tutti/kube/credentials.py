"""Who we are to the cluster, and how to reach it.

The official client reads kubeconfig files, runs exec plugins and finds the service account of a pod; everything else
about talking to the cluster is ours. Credentials age: tokens are rotated on disk, plugins hand out short-lived ones.
`access()` is therefore asked before every request and re-reads what may have changed; after a 401, `refresh()`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # typeshed does not list it

import structlog
import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import SERVICE_HOST_ENV_NAME, SERVICE_TOKEN_FILENAME, load_incluster_config
from kubernetes.config.kube_config import ENV_KUBECONFIG_PATH_SEPARATOR, KubeConfigLoader, KubeConfigMerger

log = structlog.get_logger(__name__)

MAX_AGE_SECONDS: Final = 60.0
"""A rotated token is picked up within this time; kubelets rotate an hour before a service account's token expires."""
MIN_REFRESH_SECONDS: Final = 1.0
_DEFAULT_KUBECONFIG: Final = "~/.kube/config"
_SECTIONS: Final = ("clusters", "contexts", "users")
# The official loader walks unvalidated YAML, so a malformed file shows as any of these.
_MALFORMED: Final = (ConfigException, yaml.YAMLError, OSError, ValueError, KeyError, TypeError, AttributeError)


class CredentialsError(Exception):
    """No usable credentials; the text says which source was tried and what would help."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the server now.

    `ssl` is False where the server's certificate must not be checked, True for plain HTTP or the system's authorities.
    The paths and flags it was made of are there for other clients of the same process.
    """

    server: str
    headers: Mapping[str, str] = field(default_factory=dict)
    ssl: ssl.SSLContext | bool = True
    server_hostname: str | None = None
    proxy: str | None = None
    namespace: str = "default"
    ca_path: str | None = None
    certificate_path: str | None = None
    private_key_path: str | None = None
    insecure: bool = False


Read: TypeAlias = Callable[[bool], Access]
"""Reads a source; True: from the ground up, trusting nothing that was handed out before."""


class Credentials:
    """A source of `Access`, read again as it ages. `source` names it for people."""

    def __init__(self, read: Read, *, source: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.source = source
        self._read = read
        self._clock = clock
        self._lock = asyncio.Lock()
        self._access: Access | None = None
        self._read_at = 0.0

    @classmethod
    async def load(cls, kubeconfig: str | Path | None = None, context: str | None = None) -> Credentials:
        """Find credentials: the given kubeconfig, else KUBECONFIG or ~/.kube/config, else the pod's service account.

        Raises:
            CredentialsError: There are none, or they cannot be used.
        """
        credentials = _find(str(kubeconfig) if kubeconfig else None, context)
        await credentials.refresh()
        return credentials

    @classmethod
    def fixed(cls, access: Access) -> Credentials:
        """Return credentials that never change, such as the embedded cluster's."""
        return cls(lambda _: access, source=access.server)

    @property
    def held(self) -> Access | None:
        """The current access, or None where it has to be read first: `access` does."""
        return self._access if self._clock() - self._read_at < MAX_AGE_SECONDS else None

    def hands_out(self, access: Access) -> bool:
        """Whether this is what was read last: another may have been read since a request was sent with it."""
        return access is self._access

    async def access(self) -> Access:
        """Return the current access, re-read where it is older than a minute.

        A source that cannot be re-read (a file in the middle of being replaced) leaves the last access in use.

        Raises:
            CredentialsError: It could not be read even once.
        """
        held = self.held
        if held is not None:
            return held
        access = self._access
        if access is None:
            return await self._renew(MAX_AGE_SECONDS, from_ground=True)
        try:
            return await self._renew(MAX_AGE_SECONDS, from_ground=False)
        except CredentialsError as error:
            log.warning("credentials_not_reread", source=self.source, error=str(error))
            self._read_at = self._clock()
            return access

    async def refresh(self) -> Access:
        """Read the source from the ground up, once a second at most however many requests were refused at once.

        Raises:
            CredentialsError: The source cannot be used any more.
        """
        return await self._renew(MIN_REFRESH_SECONDS, from_ground=True)

    async def _renew(self, max_age_seconds: float, *, from_ground: bool) -> Access:
        """Read the source unless somebody else just has."""
        async with self._lock:
            if self._access is None or self._clock() - self._read_at >= max_age_seconds:
                self._access = await asyncio.to_thread(self._read, from_ground)
                self._read_at = self._clock()
            return self._access


def current_kubeconfig() -> Path | None:
    """Return the file that KUBECONFIG, else the default, leads to; None where that is none, or several merged."""
    paths = (os.environ.get("KUBECONFIG") or _DEFAULT_KUBECONFIG).split(ENV_KUBECONFIG_PATH_SEPARATOR)
    found = [path for path in (Path(one).expanduser() for one in paths if one) if path.is_file()]
    return found[0] if len(found) == 1 else None


def _find(kubeconfig: str | None, context: str | None) -> Credentials:
    """Choose the source."""
    if kubeconfig:
        if not Path(kubeconfig).expanduser().is_file():
            raise CredentialsError(f"kubeconfig {kubeconfig} does not exist; give the path of an existing file")
        return _from_kubeconfig(kubeconfig, context)
    paths = os.environ.get("KUBECONFIG") or _DEFAULT_KUBECONFIG
    if any(Path(path).expanduser().is_file() for path in paths.split(ENV_KUBECONFIG_PATH_SEPARATOR) if path):
        return _from_kubeconfig(paths, context)
    if context:
        raise CredentialsError(f"context {context!r} was asked for, but there is no kubeconfig at {paths}")
    if os.environ.get(SERVICE_HOST_ENV_NAME):
        return Credentials(_read_in_cluster, source="the pod's service account")
    raise CredentialsError(
        f"no cluster to talk to: there is no kubeconfig at {paths} and this is not a pod; "
        "give --kubeconfig, or set KUBECONFIG"
    )


def _from_kubeconfig(paths: str, context: str | None) -> Credentials:
    """Return credentials out of kubeconfig files."""
    return Credentials(_Kubeconfig(paths, context).read, source=f"kubeconfig {paths}")


class _Kubeconfig:
    """Reads one context of kubeconfig files; used by one thread at a time.

    What a token provider (exec plugin, OIDC) handed out is kept: the official client asks it again only when that
    expires, and running a plugin every minute would be rude. Everything else is read anew each time.
    """

    def __init__(self, paths: str, context: str | None) -> None:
        self._paths = paths
        self._context = context
        self._provided: tuple[Configuration, str] | None = None

    def read(self, from_ground: bool) -> Access:
        """Evaluate the context.

        Raises:
            CredentialsError: It is missing, malformed, or gives no credential where it says it would.
        """
        try:
            if self._provided is not None and not from_ground:
                configuration, namespace = self._provided
                return _access(configuration, namespace=namespace)
            return self._evaluate()
        except _MALFORMED as error:
            what = _wrong_in(self._paths, error)
            raise CredentialsError(f"kubeconfig {self._paths} cannot be used: {what}") from error

    def _evaluate(self) -> Access:
        """Read the files and let the official client make a configuration of them."""
        merged = _merge(self._paths)
        contexts = _by_name(merged, "contexts")
        name = self._context or merged.config.value.get("current-context") or ""
        self._require(name, contexts)
        configuration = Configuration()
        loader: Any = KubeConfigLoader  # untyped in the official client
        loader(config_dict=merged.config, active_context=name, config_base_path=None).load_and_set(configuration)
        context = contexts[name]["context"]
        namespace = context.get("namespace") or "default"
        access = _access(configuration, namespace=namespace)
        user = _by_name(merged, "users").get(context.get("user"), {}).get("user") or {}
        if "exec" in user and not access.headers and not access.certificate_path:
            raise CredentialsError(
                f"kubeconfig {self._paths}: the exec plugin {user['exec'].get('command')!r} of user "
                f"{context['user']!r} gave no credential; run it by hand to see why"
            )
        self._provided = (configuration, namespace) if user.keys() & {"exec", "auth-provider"} else None
        return access

    def _require(self, name: str, contexts: Mapping[str, Any]) -> None:
        """Raise where the context is not there."""
        known = ", ".join(sorted(contexts)) or "no context at all"
        if not name:
            raise CredentialsError(f"kubeconfig {self._paths} has no current-context; name one of: {known}")
        if name not in contexts:
            raise CredentialsError(f"kubeconfig {self._paths} has no context {name!r}; it has: {known}")


def _merge(paths: str) -> Any:
    """Read kubeconfig files and merge them as kubectl does."""
    merger: Any = KubeConfigMerger
    return merger(paths)


def _wrong_in(paths: str, error: Exception) -> str:
    """Say in one line what is wrong with kubeconfig files that the official loader has failed on."""
    for path in filter(None, paths.split(ENV_KUBECONFIG_PATH_SEPARATOR)):
        try:
            found = yaml.safe_load(Path(path).expanduser().read_text(encoding="utf-8")) or {}
        except FileNotFoundError:
            continue
        except (OSError, ValueError, yaml.YAMLError) as unreadable:
            return " ".join(str(unreadable).split())
        if not isinstance(found, Mapping):
            return f"{path} holds no mapping with clusters, contexts and users"
        for section in _SECTIONS:
            entries = found.get(section)
            if entries is not None and not (
                isinstance(entries, list) and all(isinstance(one, Mapping) and "name" in one for one in entries)
            ):
                return f"{section} in {path} is no list of entries with names"
    return " ".join(str(error).split())


def _by_name(merged: Any, section: str) -> dict[str, Any]:
    """Return a section's entries by name."""
    if merged.config is None:
        raise ConfigException("it is empty")
    return {entry["name"]: entry.value for entry in merged.config.value[section]}


def _read_in_cluster(_from_ground: bool) -> Access:
    """Read the service account's token and certificate authority, always from the ground up."""
    configuration = Configuration()
    try:
        load: Any = load_incluster_config
        load(client_configuration=configuration)
        namespace_file = Path(SERVICE_TOKEN_FILENAME).with_name("namespace")
        namespace = namespace_file.read_text(encoding="utf-8").strip() if namespace_file.is_file() else "default"
        return _access(configuration, namespace=namespace)
    except (ConfigException, OSError, ValueError) as error:
        raise CredentialsError(f"the pod's service account cannot be used: {error}") from error


def _access(configuration: Configuration, *, namespace: str) -> Access:
    """Turn the official client's configuration into ours."""
    token = configuration.get_api_key_with_prefix("BearerToken")
    return Access(
        server=configuration.host.rstrip("/"),
        headers={"Authorization": token.strip()} if token else {},
        ssl=_ssl(configuration),
        server_hostname=configuration.tls_server_name,
        proxy=_proxy(configuration),
        namespace=namespace,
        ca_path=configuration.ssl_ca_cert,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        insecure=not configuration.verify_ssl,
    )


def _proxy(configuration: Configuration) -> str | None:
    """Return the proxy on the way to the server, unless NO_PROXY names the server."""
    host = urlsplit(configuration.host).netloc
    exempt = proxy_bypass_environment(host, {"no": configuration.no_proxy or ""})
    return None if exempt else configuration.proxy


def _ssl(configuration: Configuration) -> ssl.SSLContext | bool:
    """Return how to check the server's certificate and which of ours to show."""
    if not configuration.host.startswith("https"):
        return True
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Authorities made by older cluster installers lack the key identifiers that Python 3.13 began to insist on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
