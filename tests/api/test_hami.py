"""HAMi's annotations and limits: names, formats and defaults are those of HAMi 2.9 (pkg/device, pkg/util/nodelock)."""

from __future__ import annotations

import json

import pytest

from tutti.api.cards import CardDemand, CardPart, peak_use
from tutti.api.core import Container, PodSpec, ResourceRequirements
from tutti.api.hami import (
    ALLOCATED,
    CORES,
    COUNT,
    MEMORY,
    PERCENTAGE,
    REGISTER,
    counted_requests,
    lock_text,
    read_cards,
    read_lock,
    read_needs,
    read_parts,
    write_parts,
)


def spec(*limits: dict[str, str], first: int = 0) -> PodSpec:
    made = [Container(f"c{at}", resources=ResourceRequirements(one, one)) for at, one in enumerate(limits)]
    return PodSpec(init_containers=made[:first], containers=made[first:])


@pytest.mark.parametrize(
    ("limits", "demand"),
    [
        ({COUNT: "1"}, CardDemand(1, 0, 100, 100)),  # the webhook's defaultExclusiveCoreIfNeeded
        ({COUNT: "2", MEMORY: "4000"}, CardDemand(2, 4000)),
        ({COUNT: "1", PERCENTAGE: "50"}, CardDemand(1, 0, 50)),
        ({COUNT: "1", PERCENTAGE: "100"}, CardDemand(1, 0, 100, 100)),
        ({COUNT: "1", PERCENTAGE: "0"}, CardDemand(1, 0, 100, 100)),
        ({COUNT: "1", MEMORY: "4000", PERCENTAGE: "50"}, CardDemand(1, 4000)),  # Fit looks at memory first
        ({COUNT: "1", MEMORY: "4000", CORES: "300"}, CardDemand(1, 4000, 0, 100)),
        ({COUNT: "1", CORES: "30"}, CardDemand(1, 0, 100, 30)),
        ({"cpu": "1"}, None),
    ],
)
def test_limits_are_read_as_hami_reads_them(limits: dict[str, str], demand: CardDemand | None):
    found = read_needs(spec(limits), {})
    assert not found.problem
    assert (found.containers[0] if found.containers else None) == demand


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({MEMORY: "4000"}, "write nvidia.com/gpu: 1"),
        ({COUNT: "65"}, "asks for 65 cards"),
        ({COUNT: "1", MEMORY: "1Ti"}, "written in MiB"),
        ({COUNT: "1", PERCENTAGE: "101"}, "write 1 to 100"),
        ({COUNT: "x"}, "nvidia.com/gpu"),
    ],
)
def test_what_cannot_be_right_says_what_would_be(limits: dict[str, str], problem: str):
    assert problem in read_needs(spec(limits), {}).problem


def test_cards_are_read_in_both_formats():
    told = [{"id": "GPU-0", "index": 1, "count": 10, "devmem": 16000, "devcore": 100, "type": "T4", "health": True}]
    now = read_cards({REGISTER: json.dumps(told)})
    before = read_cards({REGISTER: "GPU-0,10,16000,100,T4,0,true,1,hami-core:"})
    assert now == before
    assert now is not None
    assert (now.cards[0].memory, now.cards[0].slots, now.cards[0].index, now.cards[0].closed) == (16000, 10, 1, "")
    assert read_cards({}) is None


def test_parts_are_written_as_hami_writes_them_and_read_back():
    parts = ((), (CardPart("GPU-0", 4000, 30), CardPart("GPU-1", 4000, 30)))
    text = write_parts(parts)
    assert text == ";GPU-0,NVIDIA,4000,30:GPU-1,NVIDIA,4000,30:;"
    assert read_parts({ALLOCATED: text}, 2) == parts


def test_init_containers_count_by_the_largest_and_the_others_together():
    parts = (
        (CardPart("a", 9, 10),),
        (CardPart("a", 4, 50),),
        (CardPart("a", 3, 0), CardPart("b", 3, 0)),
        (CardPart("a", 3, 5),),
    )
    assert peak_use(parts, 2) == {"a": (9, 50, 2), "b": (3, 0, 1)}


def test_quota_counts_all_cards_together():
    needs = read_needs(spec({COUNT: "2", MEMORY: "4000", CORES: "30"}, {COUNT: "1", PERCENTAGE: "50"}), {})
    asked = {COUNT: 3, MEMORY: 4000, CORES: 30, PERCENTAGE: 50, "cpu": 1000}
    assert counted_requests(asked, needs) == {COUNT: 3, MEMORY: 8000, CORES: 60, PERCENTAGE: 50, "cpu": 1000}


def test_locks_are_written_and_read_and_one_that_cannot_be_read_is_old():
    text = lock_text(1_000_000.7, "default", "p")
    found = read_lock({"hami.io/mutex.lock": text})
    assert text == "1970-01-12T13:46:40Z,default,p"
    assert found is not None
    assert (found.since, found.namespace, found.name) == (1_000_000.0, "default", "p")
    assert read_lock({"hami.io/mutex.lock": "2026-01-01T00:00:00+01:00"}).name == ""
    assert read_lock({"hami.io/mutex.lock": "yesterday"}).since == 0.0
