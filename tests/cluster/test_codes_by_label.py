"""Who has a value of a label, by work that is counted: of those who have it, and of those who ask for other labels."""

from __future__ import annotations

import random

from tutti.api.selectors import LabelSelector
from tutti.cluster.codes_by_label import _FEW, _MOST_PLACES, CodesByLabel
from tutti.cluster.label_index import LabelIndex, NamespaceIndex
from tutti.cluster.signatures import UNCONSTRAINED, PodQuery, PodSignature

HONEST = 2_000


def crowded() -> tuple[LabelIndex, NamespaceIndex]:
    """An index of many pods with a label `app`, each of another value."""
    index = LabelIndex()
    for number in range(HONEST):
        index.add(PodSignature("default", {"app": f"a{number}", "zone": "z"}, UNCONSTRAINED), 0)
    return index, NamespaceIndex()


def asks(key: str, value: str, namespace: str = "default") -> PodQuery:
    return PodQuery.of([namespace], LabelSelector(match_labels={key: value}))


def test_who_asks_for_more_label_keys_than_have_places_does_not_have_those_of_others_looked_up_again():
    """Whoever came last had a place, and each question about a label that had lost its own looked at every signature."""
    index, around = crowded()
    for number in range(200):
        labels = {f"mine-{number}-{at}": "x" for at in range(20)}
        index.add(PodSignature("theirs", labels, UNCONSTRAINED), 0)
    index.matching(asks("app", "none"), around)
    for number in range(200):
        for at in range(20):
            assert index.matching(asks(f"mine-{number}-{at}", "x", "theirs"), around).sum() == 1
        before = index.by_label.steps
        assert index.matching(asks("app", f"a{number}"), around).sum() == 1
        assert index.by_label.steps == before


def test_whoever_takes_places_by_what_many_of_his_pods_have_pays_for_each_that_others_lose():
    index, around = crowded()
    keys, mine = 2 * _MOST_PLACES, 2 * _FEW
    for number in range(mine):
        labels = {f"mine-{at}": str(number) for at in range(keys)}
        index.add(PodSignature("theirs", labels, UNCONSTRAINED), 0)
    index.matching(asks("app", "none"), around)
    again = 0
    for turn in range(8):
        for at in range(keys):
            index.matching(asks(f"mine-{at}", f"none-{turn}", "theirs"), around)
        before = index.by_label.steps
        index.matching(asks("app", f"none-{turn}"), around)
        again += index.by_label.steps - before
    assert again == 0


def test_labels_that_nobody_has_take_no_place_and_no_steps():
    index, around = crowded()
    index.matching(asks("app", "none"), around)
    before = index.by_label.steps
    for number in range(1_000):
        assert not index.matching(asks(f"none-{number}", "x"), around).any()
    assert index.by_label.steps == before


def test_a_label_that_was_asked_for_long_ago_makes_room_for_those_that_are():
    index = LabelIndex()
    keys = [f"key-{at}" for at in range(2 * _MOST_PLACES)]
    for number in range(2 * _FEW):
        index.add(PodSignature("default", {key: str(number) for key in keys}, UNCONSTRAINED), 0)
    for key in keys:
        assert index.by_label.having(key, ["1"]) == {1}
    before = index.by_label.steps
    index.by_label.having(keys[-1], ["2"])
    assert index.by_label.steps == before
    index.by_label.having(keys[0], ["2"])
    assert index.by_label.steps > before


def test_answers_are_those_of_each_signature_whoever_comes_and_goes_and_is_labelled_anew():
    draw = random.Random(0)
    signatures: list[PodSignature | None] = []
    found = CodesByLabel(signatures)
    keys = [f"key-{at}" for at in range(6)]

    def labels() -> dict[str, str]:
        return {key: draw.choice("ab") for key in draw.sample(keys, 3)}

    for _ in range(3_000):
        match draw.randrange(4):
            case 0 | 1:
                signatures.append(PodSignature("default", labels(), UNCONSTRAINED))
                found.add(signatures[-1].labels, len(signatures) - 1)
            case 2 if signatures:
                code = draw.randrange(len(signatures))
                if (signature := signatures[code]) is not None:
                    signatures[code] = None
                    found.remove(signature.labels, code)
            case 3 if signatures:
                code = draw.randrange(len(signatures))
                if (signature := signatures[code]) is not None:
                    found.remove(signature.labels, code)
                    signature.labels = labels()
                    found.add(signature.labels, code)
        key, values = draw.choice(keys), draw.sample("abc", draw.randrange(1, 3))
        expected = {at for at, one in enumerate(signatures) if one is not None and one.labels.get(key) in values}
        assert found.having(key, values) == expected
