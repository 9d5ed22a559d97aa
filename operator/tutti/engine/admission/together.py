"""Single pods that are equal and wait one behind the other are admitted together, as each would have been by itself.

Most of what a try costs is the same for one pod and for many: all nodes are looked at once, and the pods take them in
the order in which they would have chosen them (`placement/node_choice.py`). That holds as long as nothing but the room
they take tells one of them from the next: where anybody else has a claim on room or quota, where somebody outside is
asked, or where their quota would be borrowed, each is tried by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from tutti.cluster.volumes import NO_VOLUMES
from tutti.engine.admission.attempt import Attempt, terms_of
from tutti.engine.admission.choices import nominate
from tutti.engine.lifecycle import holders
from tutti.engine.records.lines import Standing
from tutti.engine.records.members import Charge, Member
from tutti.engine.records.workloads import Phase, Workload
from tutti.engine.state import State
from tutti.placement.gang import place_in_turn
from tutti.quota.assignment import AssignmentMode
from tutti.quota.ledger import Account

MOST = 1024
"""So many are admitted together at most."""


def run_of(state: State, head: Standing, behind: Iterable[Standing], most: float) -> list[Standing]:
    """Return whose turn it is, and those `behind` it that may be admitted together with it; `most` of them at most."""
    if not _stands_alone(state, head):
        return [head]
    count = min(math.ceil(min(MOST, most)), _without_borrowing(state, head))
    followers = takewhile(_is_single, behind)
    return [head, *islice(followers, max(0, count - 1))]


def _is_single(standing: Standing) -> bool:
    """Whether a workload is one pod that waits for a node."""
    return standing.workload.key[0] == "Pod" and standing.workload.phase is Phase.WAITING


def _stands_alone(state: State, standing: Standing) -> bool:
    """Whether nothing but the room it takes tells a single pod from those equal to it, which come after it."""
    if not _is_single(standing) or len(standing.needs) != 1 or standing.bunch.door or standing.bunch.apart:
        return False
    need, workload = standing.needs[0], standing.workload
    if need.required != 1 or need.near is not None or need.klass.volumes is not NO_VOLUMES:
        return False
    if (
        any(kept.spots for kept in state.kept.values())
        or state.nominations.ours
        or state.nominations.others
        or state.shadows.of
        or state.shadows.pauses
    ):
        return False
    return not (state.configuration.extenders or state.plugins.get(workload.scheduler))


def reserve_in_turn(state: State, run: Sequence[Standing]) -> int:
    """Reserve quota and a node for each of some equal single pods that stand alone, as if each were tried by itself.

    Returns:
        How many of them have it now, the first ones; the next is to be tried by itself.
    """
    first = run[0]
    queue, choice = first.queue, nominate(state, first)
    with state.cluster.transaction() as transaction:
        attempt = Attempt(state, first.workload, queue, transaction)
        terms = terms_of(attempt, first.needs, first.bunch.pod_sets, choice)
        rows = place_in_turn(state.cluster.nodes, transaction, terms.asks[0], attempt.profile, len(run))
        if not len(rows):
            first.bunch.apart = True
            return 0
        transaction.commit()
    admitted = run[: len(rows)]
    members = [one.needs[0].members[0] for one in admitted]
    state.cluster.assume_all([member.pod for member in members], rows.tolist())
    for one in admitted:
        one.workload.cluster_queue = queue.name if queue else ""
        one.workload.reserved_at = state.now
    if terms.charges[0] is not None:
        _charge(state, members, [one.workload for one in admitted], terms.charges[0])
    return len(admitted)


def _without_borrowing(state: State, standing: Standing) -> int:
    """Return for how many the same flavors would be chosen one after the other: what is the queue's own is enough."""
    queue, choice = standing.queue, nominate(state, standing)
    if queue is None or choice is None:
        return MOST
    if choice.mode is not AssignmentMode.FIT or choice.level:
        return 0
    node = state.ledger.tree.queues[queue.name]
    return min(
        (min(node.available(what), node.own_left(what)) // amount for what, amount in choice.usage.items() if amount),
        default=MOST,
    )


def _charge(state: State, members: Sequence[Member], workloads: Sequence[Workload], charge: Charge) -> None:
    """Let pods use quota, each for the workload that it is, as a charge says of one of them."""
    accounts = []
    for member, workload in zip(members, workloads, strict=True):
        member.charge, usage = charge.held_by(workload.name), dict(charge.usage)
        accounts.append(Account(holders.holder_of(state, workload, usage), usage, pods=1, described=True))
    state.ledger.admit(charge.queue, accounts)
