"""HTTP extenders: when they are asked about a class of pods, and how long their answers are good for.

Each extender that minds a class is asked once for all its pods, by one of them: first which of the nodes that pass our
own filters it allows, one extender after the other, then all at once how good the rest is. Calls are I/O, so each is a
decision, and each answer an observation; the workload waits at the Placement gate meanwhile.

An answer is good as long as it would be asked for again in the same words: the same candidates, with the same labels
and taints, and as much in use there of what the extender manages. One that has just come is good for one try whatever
has changed since, so that a busy cluster does not ask for ever; where such a try fails, it is asked again.

Rules: kube-scheduler 1.36, schedule_one.go (findNodesThatPassExtenders, prioritizeNodes) and extender.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from tutti.api.extensions import Extender
from tutti.api.wording import counted
from tutti.engine.records.consultation import Consultation, ConsultationInputs, ExtenderQuery, interested_extenders
from tutti.engine.records.explanation import ASKING, Explanation, Gate
from tutti.engine.records.observations import ExtenderAnswered
from tutti.engine.records.workloads import WorkloadKey
from tutti.engine.state import State
from tutti.placement.gang import Ask
from tutti.placement.plugins.extensions import keep_answer
from tutti.placement.profile import Profile, filter_nodes
from tutti.quota.ordering import delay


def begin_consulting(state: State, workload: WorkloadKey) -> None:
    """Note that a workload is being tried: an answer that was good at the beginning of a try is so to its end."""
    state.consultations.tries += 1
    state.consultations.trying = workload


def consult(state: State, queries: Sequence[ExtenderQuery], profile: Profile) -> Explanation | None:
    """Have what extenders say of the pods of some asks hold for their placement.

    Returns:
        None where they can be placed; otherwise what they wait for, and no answer has been used up.
    """
    if not state.configuration.extenders:
        return None
    why: Explanation | None = None
    ready: list[tuple[ExtenderQuery, Consultation, ConsultationInputs]] = []
    for query in queries:
        minding = interested_extenders(state.configuration.extenders, query.ask.klass)
        now = _inputs(state, query.ask, profile, minding) if minding else None
        known = _known(state, query, now, minding) if now is not None else None
        if now is None or known is None:
            continue
        if known.out or known.failure:
            known.waiting[state.consultations.trying] = None
            why = why or (_waiting(known) if known.out else _failed(known))
        else:
            ready.append((query, known, now))
    if why is None:
        for query, known, now in ready:
            known.fresh, known.used_in, known.outdated = False, state.consultations.tries, not known.inputs.equal(now)
            keep_answer(query.ask.klass, known.answer(state.cluster.nodes))
    return why


def ask_again(state: State, queries: Sequence[ExtenderQuery], profile: Profile) -> Explanation | None:
    """Consult again about asks that could not be placed, where answers were about other inputs than those now.

    Returns:
        What they wait for; None where all answers were up to date, so that they do not fit.
    """
    why: Explanation | None = None
    for query in queries if state.configuration.extenders else ():
        known = _consultation_of(query.ask)
        if known is None or known.used_in != state.consultations.tries or not known.outdated:
            continue
        minding = interested_extenders(state.configuration.extenders, query.ask.klass)
        now = _inputs(state, query.ask, profile, minding)
        if now.candidates.any():
            known = _begin(state, query, now, minding)
            known.waiting[state.consultations.trying] = None
            why = why or _waiting(known)
    return why


def extender_answered(state: State, answer: ExtenderAnswered) -> None:
    """Take in an answer, and ask the next extender; once none is left, those that waited are tried."""
    found = state.consultations.asked.pop(answer.ask, None)
    if found is None:
        return  # of an earlier life
    known, ask = found
    extender, _ = known.out[answer.ask]
    if answer.gone:
        known.out.clear()
        ask.klass.cache.pop(_key(ask), None)
    else:
        error = known.take(answer)
        if error and not extender.ignorable:
            _fail(state, known, extender, error)
        elif not error:
            state.consultations.failures.pop(extender.url_prefix, None)
        _go_on(state, known, ask)
    if not known.out:
        state.consultations.roused.update(known.waiting)
        known.waiting.clear()


def _go_on(state: State, known: Consultation, ask: Ask) -> None:
    asks = known.next_asks(state.consultations.next_ask)
    state.consultations.next_ask += len(asks)
    for one in asks:
        state.consultations.asked[one.ask] = (known, ask)
        state.out.append(one)


def _known(
    state: State, query: ExtenderQuery, now: ConsultationInputs, minding: Sequence[Extender]
) -> Consultation | None:
    """Return the consultation to go by or wait for, begun now if need be; None where there is no node to ask about."""
    known = _consultation_of(query.ask)
    if known is not None and known.failure and state.now < known.retry_at:
        return known
    if known is not None and not known.failure and _is_good(state, known, now):
        return known
    return _begin(state, query, now, minding) if now.candidates.any() else None  # our own filters say why


def _begin(state: State, query: ExtenderQuery, inputs: ConsultationInputs, minding: Sequence[Extender]) -> Consultation:
    names = state.cluster.nodes.names
    known = Consultation(
        klass=query.ask.klass,
        inputs=inputs,
        pod=query.pod,
        filters=[one for one in minding if one.filter_verb],
        scorers=[one for one in minding if one.prioritize_verb],
        left=[names[row] for row in inputs.candidates.nonzero()[0].tolist()],
    )
    query.ask.klass.cache[_key(query.ask)] = known
    _go_on(state, known, query.ask)
    return known


def _inputs(state: State, ask: Ask, profile: Profile, minding: Sequence[Extender]) -> ConsultationInputs:
    nodes = state.cluster.nodes
    keep_answer(ask.klass, None)
    candidates = filter_nodes(ask.klass, nodes, ask.where, profile).feasible
    taken = nodes.requested[candidates]
    if all(one.manages for one in minding):
        managed = sorted({name for one in minding for name in one.manages})
        columns = [nodes.axis.column(name) for name in managed]
        taken = taken[:, [column for column in columns if column < taken.shape[1]]]
    return ConsultationInputs(nodes.version, candidates, taken.copy())


def _is_good(state: State, known: Consultation, now: ConsultationInputs) -> bool:
    """Whether a consultation may be gone by, or waited for."""
    return bool(known.out) or known.fresh or known.used_in == state.consultations.tries or known.inputs.equal(now)


def _fail(state: State, known: Consultation, extender: Extender, error: str) -> None:
    failures = state.consultations.failures
    failures[extender.url_prefix] = failures.get(extender.url_prefix, 0) + 1
    backoff = state.configuration.backoff
    wait = delay(failures[extender.url_prefix], state.random, base=backoff.base_seconds, most=backoff.max_seconds)
    known.failure = f"extender {extender.url_prefix} failed: {error}"
    known.retry_at = state.now + wait
    state.hosting.recheck(known.retry_at)


def _failed(known: Consultation) -> Explanation:
    return Explanation(Gate.PLACEMENT, "ExtenderFailed", f"{known.failure}; it is asked again after a while")


def _waiting(known: Consultation) -> Explanation:
    asked = ", ".join(extender.url_prefix for extender, _ in known.out.values())
    text = f"extender {asked} has been asked about {counted(len(known.left), 'node')}"
    return Explanation(Gate.PLACEMENT, ASKING, text, {"nodes": str(len(known.left))})


def _key(ask: Ask) -> tuple[str, object]:
    return ("consultation", ask.where)


def _consultation_of(ask: Ask) -> Consultation | None:
    found = ask.klass.cache.get(_key(ask))
    return found if isinstance(found, Consultation) else None
