"""What is safe to repeat is repeated as often as was said, and no longer than it may help."""

from __future__ import annotations

import pytest

from tutti.kube.errors import ApiError, NotSent, WireError
from tutti.kube.retry import Backoff, retrying, settling

AT_ONCE = {"first": 0.0, "longest": 0.0}


class Attempts:
    """Fails with each of these in turn, then answers."""

    def __init__(self, *errors: WireError) -> None:
        self.errors = list(errors)
        self.made = 0

    async def __call__(self) -> str:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def refused() -> WireError:
    return ApiError.parse(403, b"", retry_after=None)


@pytest.mark.parametrize(
    ("errors", "made", "raises"),
    [
        ((), 1, None),
        ((NotSent("a"), NotSent("b")), 3, None),
        ((NotSent("a"), NotSent("b"), NotSent("c")), 3, "c"),
        ((NotSent("a"), refused()), 2, "403"),
    ],
)
async def test_an_error_that_may_pass_is_met_with_another_try(errors, made, raises):
    attempt = Attempts(*errors)
    trying = retrying(attempt, tries=3, backoff=Backoff(**AT_ONCE))
    if raises is None:
        assert await trying == "answer"
    else:
        with pytest.raises(WireError, match=raises):
            await trying
    assert attempt.made == made


@pytest.mark.parametrize(("settles", "made", "found"), [("b", 2, "b it is"), ("never", 3, "answer")])
async def test_what_is_made_of_an_error_ends_the_tries(settles, made, found):
    async def judge(error: WireError) -> str | None:
        return f"{error} it is" if str(error) == settles else None

    attempt = Attempts(NotSent("a"), NotSent("b"))
    assert await settling(attempt, judge, tries=3, backoff=Backoff(**AT_ONCE)) == found
    assert attempt.made == made


@pytest.mark.parametrize(("tries", "made", "raises"), [(1, 0, "before"), (2, 1, "a"), (3, 2, None)])
async def test_a_try_that_was_made_before_is_the_first(tries, made, raises):
    heard: list[str] = []

    async def judge(error: WireError) -> None:
        heard.append(str(error))

    attempt = Attempts(NotSent("a"))
    trying = settling(attempt, judge, tries=tries, backoff=Backoff(**AT_ONCE), after=NotSent("before"))
    if raises is None:
        assert await trying == "answer"
    else:
        with pytest.raises(NotSent, match=raises):
            await trying
    assert attempt.made == made
    assert heard == ["before", "a"][:tries]


async def test_without_a_single_try_there_is_no_answer():
    with pytest.raises(ValueError, match="at least one"):
        await retrying(Attempts(), tries=0)
