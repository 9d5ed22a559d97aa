"""Room is taken step by step, and then all of it stays or all of it goes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.api.core import Node, ObjectMeta
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction

STEPS = st.lists(st.tuples(st.sets(st.integers(0, 3), min_size=1), st.integers(0, 5), st.integers(0, 9)), max_size=8)


def nodes() -> NodeColumns:
    columns = NodeColumns()
    for number in range(4):
        columns.put(Node(ObjectMeta(name=f"n{number}")), {"cpu": 100})
    columns.requested[:] = np.arange(4)[:, None]
    return columns


def take(columns: NodeColumns, transaction: Transaction, rows: set[int], count: int, cpu: int) -> None:
    transaction.withhold(np.array(sorted(rows)), count * np.tile(columns.vector({"cpu": cpu}), (len(rows), 1)))


@given(STEPS)
def test_a_transaction_that_is_not_committed_leaves_no_trace(steps):
    columns = nodes()
    before = columns.requested.copy()
    with Transaction(columns) as transaction:
        for step in steps:
            take(columns, transaction, *step)
    assert (columns.requested == before).all()


@given(STEPS, STEPS)
def test_a_rollback_goes_back_to_its_mark_only(kept, undone):
    columns = nodes()
    with Transaction(columns) as transaction:
        for step in kept:
            take(columns, transaction, *step)
        mark, so_far = transaction.mark(), columns.requested.copy()
        for step in undone:
            take(columns, transaction, *step)
        transaction.rollback(mark)
        assert (columns.requested == so_far).all()
        transaction.commit()
    assert (columns.requested == so_far).all()


def test_what_was_taken_stays_after_a_commit():
    columns = nodes()
    with Transaction(columns) as transaction:
        take(columns, transaction, {1, 3}, 2, 10)
        transaction.commit()
    assert columns.requested[:, columns.resource_index.column("cpu")].tolist() == [0, 21, 2, 23]


def test_an_error_in_the_middle_undoes_everything():
    columns = nodes()
    before = columns.requested.copy()

    def fail_in_the_middle() -> None:
        with Transaction(columns) as transaction:
            take(columns, transaction, {0}, 1, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()
    assert (columns.requested == before).all()


def test_a_resource_that_appears_in_the_middle_is_undone_too():
    columns = nodes()
    with Transaction(columns) as transaction:
        take(columns, transaction, {0}, 1, 1)
        for number in range(20):
            request = columns.vector({f"example.com/{number}": 1})
            transaction.withhold(np.array([0]), request[None, :])
    assert columns.requested[0].sum() == 0
