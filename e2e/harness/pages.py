"""The pages beside the operator: installed as people do it, served by a replica, and asked for as browsers do."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from e2e.harness.clusters import Cluster
from e2e.harness.helm import Helm
from e2e.harness.installing import ROOT, Administrator
from e2e.harness.replica import Replica, launched
from e2e.harness.servers import write_kubeconfig
from e2e.harness.story import Story

NAMESPACE = "tutti-system"
# A stream asks once a minute whether it may go on, when a message or a beat (15 s) comes.
SOON_SECONDS = 90
_ANYWHERE = "127.0.0.1:0"


def install_by_manifests(administrator: Administrator, folder: Path) -> None:
    """`kubectl apply -k` of the default overlay with the component of the pages."""
    administrator.kubectl("create", "namespace", NAMESPACE)
    made = folder / "installed"
    made.mkdir()
    manifests = os.path.relpath(ROOT / "manifests", made.resolve())
    parts = {"resources": [f"{manifests}/overlays/default"], "components": [f"{manifests}/components/web-view"]}
    (made / "kustomization.yaml").write_text(yaml.safe_dump(parts))
    administrator.apply("-k", str(made))


def install_by_chart(administrator: Administrator, cluster: Cluster, folder: Path) -> None:
    """`helm install` with the value that the pages have."""
    helm = Helm(cluster, folder)
    try:
        helm.install(webView={"enabled": True})
    finally:
        helm.close()
    administrator.wait_established()


def address_of_pages(administrator: Administrator) -> tuple[int, int, int]:
    """Ports of the pages: of the Service, of the container that it leads to, and of what the configuration binds."""
    service, deployment = (
        yaml.safe_load(administrator.kubectl("get", kind, "tutti", "-n", NAMESPACE, "-o", "yaml"))
        for kind in ("service", "deployment")
    )
    [front] = [one for one in service["spec"]["ports"] if one["name"] == "pages"]
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ports = pod["spec"]["containers"][0]["ports"]
    [behind] = [one["containerPort"] for one in ports if one["name"] == front["targetPort"]]
    bound = dict(administrator.configuration().get("ui") or {}).get("bindAddress", ":8444")  # type: ignore[call-overload]
    return front["port"], behind, int(str(bound).rpartition(":")[2])


def begin_replica(story: Story, administrator: Administrator, folder: Path, name: str, *, until: str) -> Replica:
    """Start an operator here as its pod would be: with the account, rights and configuration that were installed."""
    token = administrator.kubectl("create", "token", "tutti", "-n", NAMESPACE, "--duration=1h").strip()
    admin = yaml.safe_load(story.cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    account, log = folder / f"{name}-account", folder / name
    write_kubeconfig(account, admin["server"], token, Path(admin["certificate-authority"]))
    log.mkdir()
    here = {"metrics": {"bindAddress": _ANYWHERE, "secureBindAddress": _ANYWHERE}, "ui": {"bindAddress": _ANYWHERE}}
    replica = Replica(launched(account, log, {**administrator.configuration(), **here}), log)
    try:
        story.wait(lambda: replica.said(until), f"the {name} replica to say {until}")
    except BaseException:
        replica.stop()
        raise
    return replica


def port_of(story: Story, replica: Replica) -> int:
    """The port that a replica serves pages on, once it does."""
    story.wait(lambda: replica.said("serving_pages"), "pages to be served")
    return int(next(line["port"] for line in replica.lines() if line.get("event") == "serving_pages"))


def opened(port: int, page: str, token: str = "", seconds: float = 30) -> tuple[http.client.HTTPSConnection, Any]:
    """Open the stream of a page; the connection is the caller's to close."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE  # its certificate is its own
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=seconds, context=anybody)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("GET", f"/stream?page={quote(page, safe='')}", headers=headers)
    return connection, connection.getresponse()


def shown(port: int, page: str, token: str) -> str:
    """The whole page, as somebody is sent it."""
    connection, answer = opened(port, page, token)
    with closing(connection):
        assert answer.status == 200, answer.read()
        for line in answer:
            if line.startswith(b"data: "):
                return json.dumps(json.loads(line[6:]))
    raise AssertionError("the stream has ended")


def refused(port: int, token: str) -> int:
    """With which status somebody is refused; 200 where he is not."""
    connection, answer = opened(port, "/gangs", token)
    with closing(connection):
        return int(answer.status)


def person(administrator: Administrator, name: str) -> str:
    """The token of somebody who may do nothing yet."""
    administrator.kubectl("create", "serviceaccount", name, "-n", "default")
    return administrator.kubectl("create", "token", name, "-n", "default").strip()
