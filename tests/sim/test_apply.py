"""Server-side apply, repeated: a manager keeps its fields under Apply."""

import json

PATH = "/api/v1/namespaces/default/configmaps/settings"
APPLY = "application/apply-patch+yaml"


def settings(**data):
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "settings"}, "data": data}


async def apply(api, manager, data, **more):
    return await api.call("PATCH", PATH, settings(**data), kind=APPLY, fieldManager=manager, **more)


async def test_a_manager_that_applies_another_value_still_applies(api):
    await apply(api, "one", {"a": "1"})
    changed = await apply(api, "one", {"a": "2"})

    assert changed["data"] == {"a": "2"}
    assert [(one["manager"], one["operation"]) for one in changed["metadata"]["managedFields"]] == [("one", "Apply")]
    assert (await apply(api, "one", {"a": "3"}))["data"] == {"a": "3"}


async def test_what_a_manager_applies_no_more_is_removed(api):
    await apply(api, "one", {"a": "1", "b": "1"})

    assert (await apply(api, "one", {"a": "2"}))["data"] == {"a": "2"}


async def test_a_field_applied_by_another_is_contested(api):
    await apply(api, "one", {"a": "1"})
    await apply(api, "one", {"a": "2"})
    refused = await api.call("PATCH", PATH, settings(a="3"), kind=APPLY, status=409, fieldManager="two")

    assert json.dumps(refused["details"]["causes"]).count("conflict with") == 1
    forced = await apply(api, "two", {"a": "3"}, force="true")
    assert [(one["manager"], one["operation"]) for one in forced["metadata"]["managedFields"]] == [("two", "Apply")]


async def test_an_item_that_a_manager_applies_no_more_goes_whole_with_its_keys(api):
    """Keys of two fields, in whatever order they are taken away; structured-merge-diff removes items, not their parts."""
    deployments = "/apis/apps/v1/namespaces/default/deployments/web"
    labels = {"app": "web"}

    async def spread(*keys):
        constraints = [
            {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
            for key in keys
        ]
        container = {"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}
        spec = {"containers": [container], "topologySpreadConstraints": constraints}
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
        body["spec"] = {"selector": {"matchLabels": labels}, "template": template}
        made = await api.call("PATCH", deployments, body, kind=APPLY, fieldManager="one")
        return [one["topologyKey"] for one in made["spec"]["template"]["spec"].get("topologySpreadConstraints", ())]

    assert await spread("zone", "host") == ["zone", "host"]
    assert await spread("host") == ["host"]
    assert await spread() == []
