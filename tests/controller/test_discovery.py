"""What the server has built in is asked for until it answers."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from aiohttp import web

from tests.kube.conftest import serving, status
from tutti.api.conventions.gang_objects import GangKind
from tutti.controller.discovery import served_version, version_of
from tutti.kube.errors import ApiError

KIND = GangKind("scheduling.k8s.io", "PodGroup", "podgroups", ("v1beta1", "v1alpha2"), "kubernetes")
FIRST, SECOND = "/apis/scheduling.k8s.io/v1beta1", "/apis/scheduling.k8s.io/v1alpha2"


class Discovery:
    """Says which resources each group and version has, after the answers in `before`."""

    def __init__(self, has: dict[str, list[str]], before: tuple[int, ...] = ()) -> None:
        self.has = has
        self.before = list(before)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.before:
            return status(self.before.pop(0), "Fault", "told to")
        if request.path not in self.has:
            return status(404, "NotFound")
        return web.json_response({"resources": [{"name": name} for name in self.has[request.path]]})


@pytest.mark.parametrize(
    ("has", "version"),
    [
        ({FIRST: ["podgroups"], SECOND: ["podgroups"]}, "v1beta1"),
        ({FIRST: ["workloads"], SECOND: ["podgroups", "workloads"]}, "v1alpha2"),
        ({FIRST: ["workloads"]}, ""),
        ({}, ""),
    ],
)
async def test_the_newest_version_that_has_the_kind_is_taken(has, version):
    async with serving(Discovery(has).handle) as server:
        assert await version_of(server.client, KIND, tell=pytest.fail) == version


@pytest.mark.parametrize("code", [403, 500, 503])
async def test_whoever_answers_with_an_error_is_asked_again_and_it_is_said(code):
    """An error that no retry of the same request could mend used to end the process."""
    said: list[str] = []
    async with serving(Discovery({FIRST: ["podgroups"]}, (code, code)).handle) as server:
        assert await version_of(server.client, KIND, tell=said.append) == "v1beta1"
    assert len(said) == 2
    assert all(str(code) in problem for problem in said)


@pytest.mark.parametrize(("refusal", "found"), [(403, "v1alpha2"), (404, "v1alpha2"), (503, None)])
async def test_a_version_is_passed_over_for_those_refusals_only_that_mean_that_it_is_not_for_us(refusal, found):
    async with serving(Discovery({SECOND: ["podgroups"]}, (refusal,)).handle) as server:
        asking = served_version(server.client, KIND, absent=(HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN))
        if found is not None:
            assert await asking == found
            return
        with pytest.raises(ApiError, match=str(refusal)):
            await asking
