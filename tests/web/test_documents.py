"""Pages as data: what is told of a change is what makes the page before into the one after, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.views import scene
from tests.web.serving import KNOWN
from tutti.api.configuration import TuttiConfiguration
from tutti.cli.views.configuration import KnownConfiguration
from tutti.cli.views.listing import Listed
from tutti.web.access import EVERYTHING, Viewer
from tutti.web.addresses import PageAddress, made_page, page_address
from tutti.web.documents import PageCell, PageColumn, PageDocument, PageRow, PageSection, change_of
from tutti.web.pages.asking import NotShown
from tutti.web.picture import Picture
from tutti.web.told import ToldEvent

PAGES = ["/", "/queue/vision", "/workload/vision/train-2", "/workload/speech/tune", "/nodes", "/gangs", "/decisions"]

cells = st.text("ab", max_size=2).map(lambda text: (PageCell(text),))
rows = st.lists(
    st.builds(PageRow, st.sampled_from("abcde"), st.tuples(cells, cells)), max_size=5, unique_by=lambda row: row.key
).map(tuple)
sections = st.lists(
    st.builds(
        PageSection, st.sampled_from("xyz"), st.just("table"), st.sampled_from(("one", "two")), rows,
        st.just((PageColumn("a"), PageColumn("b"))),
    ),
    max_size=3, unique_by=lambda one: one.id,
).map(tuple)  # fmt: skip
documents = st.builds(PageDocument, st.sampled_from(("t", "u")), st.sampled_from(("s", "")), sections)


def applied(before: PageDocument, change: dict) -> PageDocument:
    """What a browser makes of it (static/main.js, static/sections.js)."""
    change = json.loads(msgspec.json.encode(change))
    known = {one.id: one for one in before.sections}
    for one in change.get("sections", []):
        known[one["id"]] = msgspec.convert(one, PageSection)
    for name, rows in change.get("rows", {}).items():
        there = {row.key: row for row in known[name].rows}
        there |= {row["key"]: msgspec.convert(row, PageRow) for row in rows["set"]}
        for key in rows.get("gone", []):
            del there[key]
        ordered = [there[key] for key in rows.get("order", there)]
        known[name] = msgspec.structs.replace(known[name], rows=tuple(ordered))
    order = change.get("order", [one.id for one in before.sections])
    head = change.get("head", {})
    return msgspec.structs.replace(before, **head, sections=tuple(known[name] for name in order))


# Pages are served to other tests by threads of their own, which may draw from `random` while a document is drawn here.
DRAWN_BESIDE = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


@DRAWN_BESIDE
@given(documents, documents)
def test_a_change_makes_one_page_of_another(before, after):
    assert applied(before, change_of(before, after)) == after


@DRAWN_BESIDE
@given(documents)
def test_nothing_is_told_of_what_is_the_same(one):
    assert change_of(one, msgspec.structs.replace(one, generation=7)) == {}


def test_only_rows_that_differ_are_told():
    def page(second: str) -> PageDocument:
        made = PageRow("a", ((PageCell("1"),),)), PageRow("b", ((PageCell(second),),))
        return PageDocument("t", sections=(PageSection("x", "table", "T", made),))

    told = change_of(page("2"), page("3"))

    assert told == {"rows": {"x": {"set": [PageRow("b", ((PageCell("3"),),))]}}}


def picture(events: Sequence[ToldEvent] = (), listed: Listed | None = None) -> Picture:
    return Picture(1, listed or scene.told().listed, scene.AT, KNOWN, events)


EVENTS = [
    ToldEvent("vision/1", scene.AT - 5, "PodGroup", "vision", "train-2", "Waiting", "needs 8", warning=True, times=3),
    ToldEvent("speech/1", scene.AT - 9, "Pod", "speech", "tune-0", "Bound", "to a100-2", warning=False, times=1),
    ToldEvent("default/1", scene.AT - 9, "ClusterQueue", "", "serving", "Overused", "by 3", warning=True, times=1),
]


def texts(address: str, viewer: Viewer, of: Picture | None = None) -> str:
    found = page_address(address)
    assert found is not None
    return msgspec.json.encode(made_page(of or picture(EVENTS), found, viewer)).decode()


def test_who_may_see_everything_is_told_of_everybody():
    assert all(name in texts("/", EVERYTHING) for name in ("research", "vision", "speech", "serving"))
    assert "8 lent to others" in texts("/", EVERYTHING)
    assert "waits" in texts("/workload/vision/train-2", EVERYTHING)
    assert '"speech 8"' in texts("/workload/vision/train-2", EVERYTHING)
    assert all(name in texts("/decisions", EVERYTHING) for name in ("train-2", "tune-0", "Overused"))


def test_a_line_tells_place_needs_reason_and_age():
    found = made_page(picture(), PageAddress("/queue/vision"), EVERYTHING)
    line = next(one for one in found.sections if one.id == "waiting")

    place, name, _, needs, gate, why, starts, since = (
        "".join(cell.text for cell in cells) for cells in line.rows[0].cells
    )

    assert (place, name, gate, starts) == ("1", "vision/train-2", "Quota", "nobody knows")
    assert needs == "2 pods: 4 cpu, 16Gi memory, 8 nvidia.com/gpu"
    assert "needs 8 nvidia.com/gpu in a100; 0 free now" in why
    assert since == ""  # it is a moment, which browsers tell


TENANT = Viewer("tenant", queues=False, nodes=False, namespaces=frozenset({"vision"}))
OTHERS = ("speech/", "tune", "serving", "llm", "notebook", "h100-1", "company", "a100-2", "a100-3")


@pytest.mark.parametrize("address", PAGES)
def test_a_tenant_is_told_of_nobody_else(address):
    """Neither on his own pages nor on those of others. A queue that has lent quota is told who borrows, a queue, and where: a cohort."""
    try:
        told = texts(address, TENANT)
    except NotShown as error:
        told = str(error).replace(address.rpartition("/")[2], "")
        assert address in ("/nodes", "/workload/speech/tune")

    assert [name for name in OTHERS if name in told and name not in address] == []


def test_a_tenant_sees_his_own():
    assert '"vision/train-2"' in texts("/queue/vision", TENANT)
    assert "needs 8 nvidia.com/gpu in a100" in texts("/workload/vision/train-2", TENANT)
    assert "train-1" in texts("/gangs", TENANT)
    assert "needs 8" in texts("/decisions", TENANT)
    assert '"main"' in texts("/", TENANT)


def test_a_line_says_where_others_stand_and_not_who():
    """Both queues are one: the others' places are there, without a name."""
    made = scene.objects()
    for one in made:
        if one["kind"] == "LocalQueue":
            one["spec"]["clusterQueue"] = "vision"
    waits = [one for one in made if one["kind"] != "PodGroup" or one["metadata"]["name"] != "batch"]
    told = texts("/queue/vision", TENANT, picture(listed=scene.told(waits).listed))

    assert "of a namespace that you may not see" in told
    assert "llm" not in told


def test_without_the_right_to_nodes_none_is_shown():
    with pytest.raises(NotShown, match="you may not list nodes"):
        texts("/nodes", Viewer("somebody", nodes=False))


def test_what_may_not_be_listed_leaves_numbers_unsaid():
    seen = scene.told().listed.seen
    refused = picture(listed=Listed(seen, "vision", {"nodes": "User me cannot list nodes"}))

    with pytest.raises(NotShown, match=r"you may not list nodes in all namespaces \(User me cannot list nodes\)"):
        texts("/", EVERYTHING, refused)
    assert "This is what the operator has said" in texts("/workload/vision/train-2", EVERYTHING, refused)


def test_a_server_without_our_kinds_is_told_so():
    with pytest.raises(NotShown, match="install Tutti's CRDs"):
        texts("/", EVERYTHING, picture(listed=Listed([], missing=["clusterqueues.scheduling.tutti.dev"])))


def test_where_shards_decide_apart_no_page_pretends_to_know_what_one_process_would():
    settings = TuttiConfiguration.model_validate({"shards": [{"name": "gpu", "cohorts": ["company"]}]})
    parted = replace(picture(), known=KnownConfiguration(settings, {}))
    for address in ("/", "/queue/vision", "/nodes", "/gangs"):
        with pytest.raises(NotShown, match=r"shards, which decide apart.*`tutti explain`.*as each shard does$"):
            texts(address, EVERYTHING, parted)
    assert "This is what the operator has said" in texts("/workload/vision/train-2", EVERYTHING, parted)
    assert texts("/decisions", EVERYTHING, parted)


def test_nodes_are_in_boxes_of_their_topology():
    found = made_page(picture(), PageAddress("/nodes"), EVERYTHING)
    boxes = next(one for one in found.sections if one.id == "boxes")

    assert [(row.depth, row.cells[0][0].text) for row in boxes.rows] == [
        (0, "all nodes"),
        (1, "r1"),
        (1, "r2"),
        (1, "r3"),
    ]
    assert boxes.rows[1].squares is not None
    assert boxes.rows[1].squares.states == "fff"
    assert boxes.rows[3].squares == msgspec.structs.replace(
        boxes.rows[3].squares, names=("h100-1", "h100-2"), used=(6, 0), of=(8, 8), states="pc", notes={1: "cordoned"}
    )


def test_nodes_of_one_model_alone():
    found = made_page(picture(), PageAddress("/nodes", (("model", "NVIDIA-H100"),)), EVERYTHING)

    assert found.summary == "2 nodes, 1 of them open to pods: 6 of 16 nvidia.com/gpu used"


def test_a_node_of_which_something_cannot_be_read_is_told_with_what():
    odd = scene.node("odd", "m", "r")
    odd["status"]["allocatable"][scene.GPU] = "many"

    def trouble(viewer: Viewer) -> str:
        found = made_page(picture(listed=scene.told([odd]).listed), PageAddress("/nodes"), viewer)
        (row,) = next(one for one in found.sections if one.id == "unreadable").rows
        assert row.cells[0][0].text == "odd"
        return row.cells[1][0].text

    assert "'many' is not a quantity" in trouble(EVERYTHING)
    assert trouble(replace(TENANT, nodes=True)) == "something of it, or of a pod on it, cannot be read"


def test_gangs_are_found_by_state_namespace_and_name():
    def names(**query: str) -> list[str]:
        found = made_page(picture(), PageAddress("/gangs", tuple(query.items())), EVERYTHING)
        return [row.key for row in found.sections[0].rows]

    assert names(state="waiting", namespace="vision") == ["PodGroup/vision/train-2", "PodGroup/vision/warmup"]
    assert names(state="running") == ["PodGroup/speech/tune", "PodGroup/vision/train-1"]
    assert names(name="TRAIN") == ["PodGroup/vision/train-1", "PodGroup/vision/train-2"]
    assert names(state="degraded") == []


@pytest.mark.parametrize(
    "text",
    [
        "/nothing",
        "//evil.example/",
        "https://evil.example/",
        "/queue/",
        "/queue/a/b",
        "/workload/a",
        "/gangs?" + "a" * 3000,
    ],
)
def test_what_is_no_page(text):
    assert page_address(text) is None


def test_an_address_says_what_its_page_asks_for_and_no_more():
    assert page_address("/gangs?state=waiting&utm=1&name=") == PageAddress("/gangs", (("state", "waiting"),))
    assert page_address("/gangs?namespace=b&state=c") == page_address("/gangs?state=c&namespace=b")


def test_a_workload_that_runs_is_shown_where_it_is():
    found = made_page(picture(EVENTS), PageAddress("/workload/speech/tune"), EVERYTHING)
    members = next(one for one in found.sections if one.id == "members")
    happened = next(one for one in found.sections if one.id == "timeline")

    assert [[cell.text for cell in (*row.cells[0], *row.cells[1], *row.cells[2])] for row in members.rows] == [
        ["r1", "a100-2", "1 member"],
        ["r1", "a100-3", "1 member"],
        ["r2", "a100-4", "1 member"],
    ]
    assert [row.cells[1][0].text for row in happened.rows] == ["Bound", "Created"]
    assert all(one.id != "try" for one in found.sections)
