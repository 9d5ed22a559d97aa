"""Credentials are found where kubectl finds them, read again as they age, and refused in words that help."""

import datetime as dt
import ipaddress
import ssl
import stat
import sys

import pytest
import yaml
from aiohttp import web

from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials, CredentialsError, _Kubeconfig
from tutti.kube.errors import NotSent


@pytest.fixture(autouse=True)
def no_cluster_of_ones_own(monkeypatch, tmp_path):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def kubeconfig(path, *, user=None, cluster=None, current="one", namespace=None):
    context = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster or {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user or {"token": "t1"}}],
        "contexts": [{"name": "one", "context": context}, {"name": "two", "context": {"cluster": "c", "user": ""}}],
    }
    if current:
        document["current-context"] = current
    path.write_text(yaml.safe_dump(document))
    return path


async def test_a_kubeconfig_gives_server_token_and_namespace(tmp_path):
    credentials = await Credentials.load(kubeconfig(tmp_path / "k", namespace="team-a"))
    access = await credentials.access()
    assert access.server == "http://127.0.0.1:1"
    assert access.headers == {"Authorization": "Bearer t1"}
    assert access.namespace == "team-a"
    assert str(tmp_path / "k") in credentials.source


async def test_a_context_is_chosen_by_name(tmp_path):
    access = await (await Credentials.load(kubeconfig(tmp_path / "k", current=None), "two")).access()
    assert (access.headers, access.namespace) == ({}, "default")


@pytest.mark.parametrize(
    ("exempt", "proxy"), [("", "http://proxy:3128"), ("127.0.0.1", None), ("other", "http://proxy:3128")]
)
async def test_a_proxy_is_left_out_where_no_proxy_names_the_server(tmp_path, monkeypatch, exempt, proxy):
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://proxy:3128")
        monkeypatch.setenv(name.lower(), "http://proxy:3128")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, exempt)
    access = await (await Credentials.load(kubeconfig(tmp_path / "k"))).access()
    assert access.proxy == proxy


@pytest.mark.parametrize("where", ["KUBECONFIG", "second of KUBECONFIG", "home"])
async def test_without_a_path_it_is_found_where_kubectl_looks(tmp_path, monkeypatch, where):
    (tmp_path / ".kube").mkdir()
    path = kubeconfig(tmp_path / ".kube" / "config" if where == "home" else tmp_path / "k")
    if where != "home":
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{path}" if "second" in where else str(path))
    assert (await (await Credentials.load()).access()).headers == {"Authorization": "Bearer t1"}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "file is empty"),
        ("a: [", "cannot be used: while parsing"),
        ("- a\n- b\n", "k holds no mapping with clusters, contexts and users$"),
        ("just words\n", "k holds no mapping with clusters, contexts and users$"),
        ("contexts: 7\n", "contexts in .*k is no list of entries with names$"),
        (
            "current-context: x\nusers: [a]\ncontexts: [{name: x, context: {}}]\n",
            "users in .*k is no list of entries with names$",
        ),
        ("{}\n", "has no current-context; name one of: no context at all"),
        ("current-context: x\n", "has no context 'x'; it has: no context at all"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\n", "cannot be used.*name y"),
        ("current-context: x\ncontexts: [{name: x}]\n", "cannot be used"),
    ],
)
async def test_a_file_that_is_no_kubeconfig_is_refused_in_words(tmp_path, content, complaint):
    path = tmp_path / "k"
    path.write_text(content)
    with pytest.raises(CredentialsError, match=complaint) as caught:
        await Credentials.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_missing_file_a_missing_context_and_no_cluster_at_all(tmp_path):
    with pytest.raises(CredentialsError, match="nowhere does not exist"):
        await Credentials.load(tmp_path / "nowhere")
    with pytest.raises(CredentialsError, match="has no context 'three'; it has: one, two"):
        await Credentials.load(kubeconfig(tmp_path / "k"), "three")
    with pytest.raises(CredentialsError, match="no cluster to talk to"):
        await Credentials.load()
    with pytest.raises(CredentialsError, match="context 'one' was asked for"):
        await Credentials.load(context="one")


async def test_a_pod_without_its_service_account_is_told(monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(CredentialsError, match="service account cannot be used: Service token file does not exist"):
        await Credentials.load()


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


async def test_a_rotated_token_file_is_read_again_within_a_minute(tmp_path):
    token = tmp_path / "token"
    token.write_text("old")
    path, clock = kubeconfig(tmp_path / "k", user={"tokenFile": str(token)}), Clock()
    credentials = Credentials(_Kubeconfig(str(path), None).read, source="test", clock=clock)
    await credentials.access()
    token.write_text("new")
    clock.now = 59
    assert (await credentials.access()).headers == {"Authorization": "Bearer old"}
    clock.now = 60
    assert (await credentials.access()).headers == {"Authorization": "Bearer new"}


async def test_a_source_that_breaks_leaves_what_was_read_in_use(tmp_path):
    path, clock = kubeconfig(tmp_path / "k"), Clock()
    credentials = Credentials(_Kubeconfig(str(path), None).read, source="test", clock=clock)
    await credentials.access()
    path.write_text("half writ: [")
    clock.now = 60
    assert (await credentials.access()).headers == {"Authorization": "Bearer t1"}
    clock.now = 61
    with pytest.raises(CredentialsError):
        await credentials.refresh()


PLUGIN = """#!{python}
import json, pathlib
count = pathlib.Path({count!r})
runs = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(runs))
status = {{"token": f"t{{runs}}", "expirationTimestamp": {expiry!r}}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


def with_plugin(tmp_path, text):
    plugin = tmp_path / "plugin"
    plugin.write_text(text)
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    return kubeconfig(tmp_path / "k", user=user)


@pytest.mark.parametrize(("expiry", "runs"), [("2999-01-01T00:00:00Z", 1), ("2001-01-01T00:00:00Z", None)])
async def test_an_exec_plugin_runs_again_only_when_its_token_expires(tmp_path, expiry, runs):
    count = tmp_path / "count"
    path = with_plugin(tmp_path, PLUGIN.format(python=sys.executable, count=str(count), expiry=expiry))
    clock = Clock()
    credentials = Credentials(_Kubeconfig(str(path), None).read, source="test", clock=clock)
    first = (await credentials.access()).headers["Authorization"]
    clock.now = 60
    second = (await credentials.access()).headers["Authorization"]
    assert (first == second) == (runs == 1)
    before = int(count.read_text())
    clock.now = 61
    await credentials.refresh()
    assert int(count.read_text()) > before


async def test_an_exec_plugin_that_fails_is_named(tmp_path):
    with pytest.raises(CredentialsError, match="plugin' of user 'u' gave no credential"):
        await Credentials.load(with_plugin(tmp_path, "#!/bin/sh\nexit 3\n"))


@pytest.fixture
def certificate(tmp_path):
    """A self-signed certificate for 127.0.0.1, which is its own authority."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return tmp_path / "crt", tmp_path / "key"


@pytest.fixture
async def tls_server(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate[0])
    context.load_cert_chain(*certificate)
    context.verify_mode = ssl.CERT_OPTIONAL

    async def answer(request):
        shown = request.transport.get_extra_info("peercert")
        return web.json_response({"shown": bool(shown)})

    app = web.Application()
    app.router.add_get("/version", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def version(path):
    async with Client(await Credentials.load(path)) as client:
        return await client.request("GET", "/version")


async def test_the_servers_certificate_is_checked_and_ours_is_shown(tmp_path, certificate, tls_server):
    crt, key = (str(path) for path in certificate)
    cluster = {"server": tls_server, "certificate-authority": crt}
    assert b"false" in await version(kubeconfig(tmp_path / "k", cluster=cluster))
    user = {"client-certificate": crt, "client-key": key}
    assert b"true" in await version(kubeconfig(tmp_path / "k", cluster=cluster, user=user))
    access = await (await Credentials.load(tmp_path / "k")).access()
    assert (access.ca_path, access.certificate_path, access.private_key_path) == (crt, crt, key)


async def test_an_unknown_authority_is_refused_unless_told_not_to_check(tmp_path, tls_server):
    with pytest.raises(NotSent, match="certificate verify failed"):
        await version(kubeconfig(tmp_path / "k", cluster={"server": tls_server}))
    lax = {"server": tls_server, "insecure-skip-tls-verify": True}
    assert b"shown" in await version(kubeconfig(tmp_path / "k", cluster=lax))


async def test_fixed_credentials_never_change():
    access = Access("http://127.0.0.1:1")
    credentials = Credentials.fixed(access)
    assert await credentials.access() is await credentials.refresh() is access


async def test_what_was_read_lately_is_there_without_waiting():
    now = [0.0]
    credentials = Credentials(lambda _: Access("http://x"), source="test", clock=lambda: now[0])
    assert credentials.held is None
    access = await credentials.access()
    now[0] += 59
    assert credentials.held is access
    now[0] += 1
    assert credentials.held is None  # as old as it may be
    assert await credentials.access() is credentials.held is not None
