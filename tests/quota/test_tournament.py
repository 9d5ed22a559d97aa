"""What must hold of every tournament of fair sharing."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tests.quota.trees import full_trees, unhurried
from tutti.quota.fair_sharing import Tournament, fair_share
from tutti.quota.snapshot import Snapshot
from tutti.quota.tree import QuotaNode, QuotaTree, Usage

WHAT = ("f0", "cpu")


@dataclass(frozen=True)
class Head:
    priority: int
    queued_at: float = 0.0
    usage: Usage = field(default_factory=dict)


def plain_winner(tree: QuotaTree, root: QuotaNode, heads: dict[str, Head]) -> str | None:
    """Return who is next by the words of the rule: every cohort asks all of its children, each time."""
    if root.leaf:
        return root.name if root.name in heads else None

    def rank(cohort: QuotaNode, child: QuotaNode, queue: str) -> tuple[object, ...]:
        head = heads[queue]
        tree.add(queue, head.usage)
        share = fair_share(child)
        tree.remove(queue, head.usage)
        borrows = share.borrows_any([what for what, amount in head.usage.items() if amount > 0])
        return borrows, share.key, -head.priority, head.queued_at

    children = sorted(root.children, key=lambda child: child.leaf)
    forward = [(child, plain_winner(tree, child, heads)) for child in children]
    ranked = [(rank(root, child, queue), place, queue) for place, (child, queue) in enumerate(forward) if queue]
    return min(ranked)[2] if ranked else None


@unhurried
@given(full_trees(), st.lists(st.tuples(st.integers(1, 6), st.integers(0, 2)), min_size=4, max_size=4))
def test_a_tournament_lets_every_head_have_its_turn_once(tree, wishes):
    snapshot = Snapshot(tree, {})
    heads = {
        name: Head(priority, usage={WHAT: cpu})
        for name, (cpu, priority) in zip(sorted(tree.queues), wishes, strict=False)
    }
    roots = {id(root): root for root in (snapshot.queue(name).root() for name in heads)}
    order = []
    for root in roots.values():
        tournament = Tournament(snapshot, root)
        for name, head in heads.items():
            if snapshot.queue(name).root() is root:
                tournament.put(name, head)
        while (winner := tournament.winner()) is not None:
            snapshot.charge(winner, heads[winner].usage)
            tournament.put(winner, None)
            order.append(winner)
    assert sorted(order) == sorted(heads)


@unhurried
@given(full_trees(), st.data())
def test_who_is_next_is_who_a_tournament_played_anew_would_name(tree, data):
    """However heads come and go and use grows and falls meanwhile, anywhere in the tree."""
    snapshot, names = Snapshot(tree, {}), sorted(tree.queues)
    root = snapshot.queue(data.draw(st.sampled_from(names))).root()
    mine = [name for name in names if snapshot.queue(name).root() is root]
    tournament, heads, used = Tournament(snapshot, root), dict[str, Head](), list[tuple[str, Usage]]()
    amounts = st.integers(0, 6).map(lambda cpu: {WHAT: cpu})
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(mine))
        match data.draw(st.sampled_from(["put", "put", "take", "use", "give"])):
            case "put":
                heads[name] = Head(data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1)), data.draw(amounts))
                tournament.put(name, heads[name])
            case "take":
                heads.pop(name, None)
                tournament.put(name, None)
            case "use":
                used.append((name, data.draw(amounts)))
                snapshot.charge(*used[-1])
                tournament.has_moved(name)
            case _ if used:
                name, usage = used.pop()
                snapshot.refund(name, usage)
                tournament.has_moved(name)
        if data.draw(st.booleans()):
            assert tournament.winner() == plain_winner(tree, root, heads)
    assert tournament.winner() == plain_winner(tree, root, heads)
