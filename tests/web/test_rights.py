"""Who may see what, asked of an API server that goes by roles."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from tests.web.roles import RBAC, make_roles, person, post
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti.web.access import LONGEST_TOKEN, ClusterRights, Refused
from tutti_sim.cluster import EmbeddedCluster

SPACES = ("vision", "speech")
NOT_ASKED = {"name": "away", "match": {"resources": ["tokenreviews"]}, "error": {"code": 503}}


@asynccontextmanager
async def people() -> AsyncIterator[tuple[EmbeddedCluster, Client]]:
    async with EmbeddedCluster(nodes=0, controllers=False) as cluster:
        access = Access(cluster.url, headers={"Authorization": f"Bearer {cluster.token}"})
        async with Client(Credentials.fixed(access)) as client:
            for name in SPACES:
                made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await post(client, "/api/v1/namespaces", made)
            await make_roles(client)
            yield cluster, client


async def test_a_viewer_may_see_what_he_may_list():
    async with people() as (cluster, client):
        rights = ClusterRights(client)
        everybody = await rights.viewer(await person(client, "admin", everywhere=True), SPACES)
        tenant = await rights.viewer(await person(client, "tenant", in_=("vision",)), SPACES)
        root = await rights.viewer(cluster.token, SPACES)

    assert everybody.sees_all
    assert root.sees_all
    assert (tenant.name, tenant.queues, tenant.nodes) == ("system:serviceaccount:default:tenant", False, False)
    assert tenant.namespaces == {"vision"}
    assert tenant.sees("vision")
    assert not tenant.sees("speech")
    assert not tenant.sees_all


async def test_a_tenant_is_let_in_however_many_namespaces_come_before_his():
    """Of up to 200 it was asked, in the order of names."""
    others = [f"a-{number}" for number in range(300)]
    async with people() as (_, client):
        tenant = await ClusterRights(client).viewer(await person(client, "tenant", in_=("vision",)), [*others, *SPACES])
    assert tenant.namespaces == {"vision"}


async def test_to_refuse_somebody_of_many_namespaces_is_not_done_again_for_a_minute():
    now, others = [0.0], [f"a-{number}" for number in range(300)]
    async with people() as (_, client):
        rights = ClusterRights(client, clock=lambda: now[0])
        token = await person(client, "nobody")
        for now[0] in (0.0, 59.0):
            with pytest.raises(Refused) as refused:
                await rights.viewer(token, others)
            assert refused.value.status == HTTPStatus.FORBIDDEN
            await client.request("PUT", "/_tutti/faults", body=json.dumps({"rules": [NOT_ASKED]}).encode())


async def test_who_may_list_nothing_is_told_what_would_let_him():
    async with people() as (_, client):
        token = await person(client, "nobody")
        with pytest.raises(Refused, match="the role view, bound in a namespace") as refused:
            await ClusterRights(client).viewer(token, SPACES)

    assert refused.value.status == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("token", ["", "unknown", "x" * (LONGEST_TOKEN + 1), "\udcff"])
async def test_a_token_that_nobody_knows(token):
    async with people() as (_, client):
        with pytest.raises(Refused) as refused:
            await ClusterRights(client).viewer(token, SPACES)

    assert refused.value.status == HTTPStatus.UNAUTHORIZED


async def test_an_answer_is_kept_for_a_minute_and_a_refusal_for_seconds():
    now = [0.0]
    async with people() as (_, client):
        rights = ClusterRights(client, clock=lambda: now[0])
        token = await person(client, "tenant", in_=("vision",))
        await rights.viewer(token, SPACES)
        await client.request("DELETE", f"{RBAC}/namespaces/vision/rolebindings/tenant")

        now[0] = 59.0
        assert (await rights.viewer(token, SPACES)).namespaces == {"vision"}
        now[0] = 61.0
        with pytest.raises(Refused):
            await rights.viewer(token, SPACES)

        subjects = [{"kind": "ServiceAccount", "name": "tenant", "namespace": "default"}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        bound = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "again"}}
        await post(
            client, f"{RBAC}/namespaces/speech/rolebindings", {**bound, "roleRef": reference, "subjects": subjects}
        )
        now[0] = 67.0
        assert (await rights.viewer(token, SPACES)).namespaces == {"speech"}


async def test_nobody_is_let_in_where_the_server_does_not_say():
    async with people() as (_, client):
        token = await person(client, "tenant", in_=("vision",))
        await client.request("PUT", "/_tutti/faults", body=json.dumps({"rules": [NOT_ASKED]}).encode())
        with pytest.raises(Refused) as refused:
            await ClusterRights(client).viewer(token, SPACES)

    assert refused.value.status == HTTPStatus.SERVICE_UNAVAILABLE


async def test_the_server_itself_goes_by_roles():
    """What the embedded API server lets somebody do is what it says of it when it is asked."""
    async with people() as (cluster, client):
        token = await person(client, "tenant", in_=("vision",))
        async with Client(
            Credentials.fixed(Access(cluster.url, headers={"Authorization": f"Bearer {token}"}))
        ) as tenant:
            assert json.loads(await tenant.request("GET", "/api/v1/namespaces/vision/pods"))["items"] == []
            for path in ("/api/v1/namespaces/speech/pods", "/api/v1/pods", "/api/v1/nodes"):
                with pytest.raises(Exception, match=r"is forbidden|cannot list"):
                    await tenant.request("GET", path)
