"""What goes wrong with a request is decided by rules and dice alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.api.problems import ConfigurationError
from tutti_sim.faults.rules import Asked, FaultCounts, Faults, Match, Refusal, Rule, WatchFault, decide, matches
from tutti_sim.meta import yamlfile

REFUSAL = Refusal(code=503)
BIND = Asked("create", "", "pods/binding", "default", "p", "tutti/1")
WATCH = Asked("watch", "", "pods")

names = st.sampled_from(["a", "b", "c", "d"])
askeds = st.builds(
    Asked,
    verb=st.sampled_from(["get", "list", "watch", "create", "patch"]),
    resource=st.sampled_from(["pods", "pods/binding", "nodes"]),
    namespace=st.sampled_from(["", "default"]),
)
rules = st.builds(
    Rule,
    name=names,
    match=st.builds(Match, verbs=st.lists(st.sampled_from(["get", "watch", "create"]), max_size=2)),
    rate=st.floats(0, 1),
    skip=st.integers(0, 3),
    times=st.none() | st.integers(0, 3),
    error=st.just(REFUSAL),
)


def run(faults, requests, *, elapsed=0.0):
    """The verdicts on a series of requests, with the tallies kept as the server keeps them."""
    tallies, verdicts = {}, []
    for asked in requests:
        verdict = decide(faults, asked, tallies, elapsed=elapsed)
        for name, struck in verdict.matched:
            tallies[name] = tallies.get(name, FaultCounts()).after(struck=struck)
        verdicts.append(verdict)
    return verdicts, tallies


def struck(verdicts, name):
    return [dict(verdict.matched)[name] for verdict in verdicts if name in dict(verdict.matched)]


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ({}, True),
        ({"verbs": ["create"]}, True),
        ({"verbs": ["get", "list"]}, False),
        ({"resources": ["pods"]}, False),
        ({"resources": ["pods/*"]}, True),
        ({"resources": ["nodes", "pods/binding"]}, True),
        ({"groups": [""]}, True),
        ({"groups": ["batch"]}, False),
        ({"namespaces": ["def*"], "names": ["p"], "agents": ["tutti/*"]}, True),
        ({"namespaces": ["def*"], "names": ["q*"]}, False),
    ],
)
def test_a_rule_is_about_requests_that_fit_all_it_says(match, fits):
    assert matches(Match(**match), BIND) is fits


@given(seed=st.integers(), found=st.lists(rules, unique_by=lambda one: one.name), asked=st.lists(askeds, max_size=30))
def test_the_same_seed_decides_the_same(seed, found, asked):
    faults = Faults(seed=seed, rules=found)

    assert run(faults, asked) == run(faults, asked)


@given(seed=st.integers(), found=st.lists(rules, min_size=1, unique_by=lambda one: one.name), asked=st.lists(askeds))
def test_a_rule_strikes_the_same_requests_whatever_other_rules_there_are(seed, found, asked):
    together, _ = run(Faults(seed=seed, rules=found), asked)
    alone, _ = run(Faults(seed=seed, rules=found[:1]), asked)

    assert struck(together, found[0].name) == struck(alone, found[0].name)


@given(seed=st.integers(), rule=rules, asked=st.lists(askeds), others=st.lists(st.just(Asked("delete", "", "x"))))
def test_a_rule_strikes_the_same_whatever_other_requests_come_between(seed, rule, asked, others):
    narrow = rule.model_copy(update={"match": Match(verbs=["get", "watch", "create"])})
    faults = Faults(seed=seed, rules=[narrow])
    mixed = [one for pair in zip(asked, [*others, *asked], strict=False) for one in (pair[0], Asked("delete"))]

    assert struck(run(faults, mixed)[0], rule.name) == struck(run(faults, asked)[0], rule.name)


@given(seed=st.integers(), found=st.lists(rules, unique_by=lambda one: one.name), asked=st.lists(askeds, max_size=40))
def test_limits_hold(seed, found, asked):
    verdicts, tallies = run(Faults(seed=seed, rules=found), asked)

    for rule in found:
        hits = struck(verdicts, rule.name)
        assert not any(hits[: rule.skip])
        assert rule.times is None or sum(hits) <= rule.times
        assert tallies.get(rule.name, FaultCounts()) == FaultCounts(len(hits), sum(hits))
        assert rule.rate > 0 or not any(hits)
        assert rule.rate < 1 or rule.times is not None or all(hits[rule.skip :])


@given(seed=st.integers())
def test_the_rate_is_how_often_a_rule_strikes(seed):
    verdicts, _ = run(Faults(seed=seed, rules=[Rule(name="r", rate=0.3, error=REFUSAL)]), [BIND] * 500)

    assert 90 < sum(struck(verdicts, "r")) < 210


@pytest.mark.parametrize(("elapsed", "holds"), [(0, False), (4.9, False), (5, True), (9.9, True), (10, False)])
def test_a_rule_holds_between_its_times(elapsed, holds):
    rule = Rule(name="r", from_seconds=5, until_seconds=10, error=REFUSAL)

    assert bool(decide(Faults(rules=[rule]), BIND, {}, elapsed=elapsed).refusal) is holds


def test_latencies_and_skews_add_up_and_the_first_refusal_counts():
    first = Rule(name="a", latency="1", skew_seconds=60, error=REFUSAL)
    second = Rule(name="b", latency="2", skew_seconds=-10, error=Refusal(code=500), reset="after")

    verdict = decide(Faults(rules=[first, second]), BIND, {}, elapsed=0)

    assert (verdict.latency, verdict.skew, verdict.refusal, verdict.reset) == (3, 50, REFUSAL, "after")


def test_watch_faults_concern_watches_only():
    faults = Faults(rules=[Rule(name="r", watch=WatchFault(drop_after_events=1))])

    assert decide(faults, WATCH, {}, elapsed=0).watch
    assert not decide(faults, BIND, {}, elapsed=0).watch


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("rules: [{name: r}]", "rule 'r' does nothing; give it latency, error, reset, watch or skewSeconds"),
        ("rules: [{name: r, reset: during}]", r"rules\[0\].reset: must be 'before' or 'after', not 'during'"),
        ("rules: [{name: r, error: {code: 418}}]", r"rules\[0\].error.code: must be 403, .* not 418"),
        ("rules: [{name: r, rate: 2, reset: after}]", r"rules\[0\].rate: .* 1 \(it is 2\)"),
        ("rules: [{name: r, latency: later}]", r"rules\[0\].latency: must be seconds"),
        ("rules: [{name: r, reset: after, match: {verbs: [bind]}}]", r"rules\[0\].match.verbs\[0\]: must be 'get'"),
        ("rules: [{name: r, reset: after}, {name: r, reset: after}]", "two rules are called 'r'"),
        ("rules: [{name: r, reset: after, fromSeconds: 5, untilSeconds: 5}]", "before it begins"),
        ("rulez: []", "did you mean 'rules'"),
    ],
)
def test_a_mistake_is_named_by_its_place(document, message):
    with pytest.raises(ConfigurationError, match=message):
        yamlfile.read_yaml(document, Faults, "faults.yaml")
