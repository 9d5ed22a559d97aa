"""What throttles may cost: one that changes costs itself, and what one object says has a bound."""

from __future__ import annotations

from typing import Any

from tests.engine.admission.test_throttling import throttle, world_of
from tutti.api.throttles import MOST_AMOUNTS, MOST_SELECTED
from tutti.quota.throttles import MOST_AHEAD, Throttle


def named(name: str, raw: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    return raw | {"metadata": {"name": name, "uid": f"u-{name}", "namespace": namespace}}


def moments(count: int, **requests: str) -> list[dict[str, Any]]:
    """Overrides of which one after the other begins, each another amount, far ahead."""
    begins = [f"2100-01-{1 + at // 24:02}T{at % 24:02}:00:00Z" for at in range(count)]
    return [
        {"begin": begin, "end": "2200-01-01T00:00:00Z", "threshold": {"resourceRequests": requests | {"cpu": f"{at}m"}}}
        for at, begin in enumerate(begins)
    ]


def labelled(world, name: str, **more: Any) -> None:
    world.pod(name, gpus=0, labels={"app": "x"}, **more)


def test_amounts_and_selectors_of_one_object_have_a_bound_and_it_says_so():
    world = world_of()
    each = {f"example.com/r{number}": "1" for number in range(60)}
    many = [
        {
            "podSelector": {
                "matchExpressions": [
                    {"key": "app", "operator": "In", "values": [str(one) for one in range(MOST_SELECTED)]}
                ]
            }
        }
    ]
    world.throttle("Throttle", named("amounts", throttle(0, overrides=moments(60, **each))))
    world.throttle("Throttle", named("labels", throttle(0, selector={"selectorTerms": many})))
    labelled(world, "p")
    world.run()
    assert list(world.where()) == ["p"]
    said = {
        name: world.throttle_status("Throttle", name)["calculatedThreshold"]["messages"]
        for name in ("amounts", "labels")
    }
    assert said == {
        "amounts": [f"its thresholds name 3661 amounts, and {MOST_AMOUNTS} is the most that is weighed"],
        "labels": [f"its selectors have 1025 labels and values, and {MOST_SELECTED} is the most that is weighed"],
    }


def test_when_a_throttle_allows_more_is_looked_for_a_bounded_number_of_times_ahead(monkeypatch):
    world = world_of()
    world.throttle("Throttle", throttle(0, overrides=moments(200)))
    world.run()
    asked = counted(monkeypatch)
    labelled(world, "p")
    world.run()
    assert world.why("Pod", "p").reason == "Throttled"
    assert 0 < len(asked) <= MOST_AHEAD + 1


def test_a_throttle_that_changes_has_no_other_looked_at(monkeypatch):
    world = world_of()
    for number in range(50):
        world.throttle("Throttle", named(f"t{number}", throttle(1, overrides=moments(10))))
    world.run()
    asked = counted(monkeypatch)
    world.throttle("Throttle", named("t0", throttle(2, overrides=moments(10))))
    world.run()
    assert len(asked) == 1


def test_a_throttle_that_changes_wakes_nobody_of_another_namespace():
    world = world_of()
    world.throttle("Throttle", named("mine", throttle(0)))
    world.throttle("Throttle", named("theirs", throttle(0), "other"))
    for number in range(5):
        labelled(world, f"p{number}", cpu=f"{number + 1}", namespace="other")
    world.run()
    before = world.engine.evaluated
    world.throttle("Throttle", named("mine", throttle(1)))
    world.run()
    assert world.engine.evaluated == before
    world.throttle("Throttle", named("theirs", throttle(15), "other"))
    world.run()
    assert len(world.where("", "other")) == 5


def test_a_throttle_of_all_namespaces_that_allows_more_wakes_all():
    world = world_of()
    raw = throttle(0)
    raw["metadata"] = {"name": "all", "uid": "u-all"}
    world.throttle("ClusterThrottle", raw)
    labelled(world, "p")
    labelled(world, "q", namespace="other")
    world.run()
    assert not world.where()
    assert not world.where("", "other")
    world.remove_throttle("ClusterThrottle", "all")
    world.run()
    assert list(world.where()) == ["p"]
    assert list(world.where("", "other")) == ["q"]
    assert world.replay().differences == []


def counted(monkeypatch) -> list[float]:
    """For which moments thresholds are worked out from now on."""
    asked: list[float] = []
    limits_at = Throttle.limits_at

    def counting(self, now, *, merge=False):
        asked.append(now)
        return limits_at(self, now, merge=merge)

    monkeypatch.setattr(Throttle, "limits_at", counting)
    return asked
