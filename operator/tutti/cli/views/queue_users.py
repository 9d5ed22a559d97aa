"""What users and groups have of a queue that limits them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from rich.table import Table

from tutti.cli.views.drawing import PageWidth, amount, table
from tutti.engine.status import StatusState
from tutti.engine.status.queue_statuses import user_shares
from tutti.quota.user_limits import Allowed, holder_title


class UserInQueue(msgspec.Struct, frozen=True, rename="camel"):
    """What a user or group has of a queue that limits them.

    Attributes:
        workloads: How many hold quota, of `most_workloads`; None: any number may.
        used: By resource.
        most: How much of it there may be; what is not there is not limited.
    """

    kind: str
    name: str
    workloads: int
    most_workloads: int | None
    used: Mapping[str, int]
    most: Mapping[str, int]


def users_of(state: StatusState, name: str, most: int) -> Iterator[UserInQueue]:
    """Yield what users and groups have of a queue that limits them: so many, those with most workloads first."""
    queue = state.catalog.queues.get(name)
    if queue is None or not queue.user_limits:
        return
    for holder, share in user_shares(state, name)[:most]:
        kind, who = holder_title(holder)
        allowed = queue.user_limits.allowed(holder) or Allowed()
        workloads = len(share.workloads)
        yield UserInQueue(kind, who, workloads, allowed.workloads, share.resources, allowed.resources)


def draw_users(users: Sequence[UserInQueue], page: PageWidth) -> Table:
    """Draw what each of them has."""
    drawn = table("HAS OF IT", "WORKLOADS", "USES", right=("WORKLOADS",), wraps=("USES",), page=page)
    for user in users:
        count = f"{user.workloads}{'' if user.most_workloads is None else f' of {user.most_workloads}'}"
        drawn.add_row(f"{user.kind} {user.name}", count, _limited(user))
    return drawn


def _limited(user: UserInQueue) -> str:
    """Return how much of what is limited a user has."""
    parts = (
        f"{amount(name, user.used.get(name, 0))} of {amount(name, most)} {name}" for name, most in user.most.items()
    )
    return ", ".join(parts)
