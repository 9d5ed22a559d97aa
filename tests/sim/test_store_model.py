"""Any interleaving of writes, watches, forgetting and paging, against a model that remembers everything."""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from tests.drawing import examples
from tutti_sim.store.collection import FIRST, Compacted
from tutti_sim.store.store import Store

KEYS = st.tuples(st.sampled_from(["n", "m"]), st.sampled_from("abc"))
SPACES = st.sampled_from(["", "n", "m"])
FLOORS = st.sampled_from([None, 1, 2])


class Watch:
    """What one watcher was promised: where it began, what it may see, and what it has been told."""

    def __init__(self, subscription, namespace, floor, after):
        self.subscription = subscription
        self.namespace = namespace
        self.floor = floor
        self.after = after
        self.told = []


class Model(RuleBasedStateMachine):
    watches = Bundle("watches")
    pages = Bundle("pages")

    @initialize(history=st.integers(1, 12))
    def begin(self, history):
        self.history = history
        self.store = Store(history=history)
        self.collection = self.store.open("things")
        self.other = self.store.open("others")
        self.log = []  # (revision, key, value or None)
        self.open = []

    def state(self, revision, namespace="", floor=None):
        found = {}
        for rv, key, value in self.log:
            if rv > revision:
                break
            found[key] = value
        return {
            key: value
            for key, value in found.items()
            if value is not None and namespace in ("", key[0]) and (floor is None or value >= floor)
        }

    def oldest(self):
        return self.log[-self.history - 1][0] if len(self.log) > self.history else 0

    @rule(key=KEYS, value=st.integers(0, 3))
    def put(self, key, value):
        obj = {"metadata": {"namespace": key[0], "name": key[1]}, "value": value}
        current = self.collection.get(*key)
        made = self.store.replace(self.collection, current, obj) if current else self.store.create(self.collection, obj)
        self.log.append((made.rv, key, value))

    @rule(key=KEYS)
    def remove(self, key):
        current = self.collection.get(*key)
        if current is not None:
            self.log.append((self.store.remove(self.collection, current).rv, key, None))

    @rule()
    def elsewhere(self):
        self.store.create(self.other, {"metadata": {"name": str(self.store.revision)}})

    @rule(target=watches, back=st.integers(0, 20), namespace=SPACES, floor=FLOORS)
    def watch(self, back, namespace, floor):
        after = max(self.store.revision - back, 0)
        predicate = None if floor is None else lambda obj: obj["value"] >= floor
        try:
            subscription = self.collection.subscribe(namespace=namespace, predicate=predicate, after=after, limit=1000)
        except Compacted:
            assert after < self.oldest()
            return multiple()
        assert after >= self.oldest()
        made = Watch(subscription, namespace, floor, after)
        self.open.append(made)
        return made

    @rule(watch=watches)
    def read(self, watch):
        watch.told += watch.subscription.take()
        self.check(watch)

    def check(self, watch):
        expected, seen = [], self.state(watch.after, watch.namespace, watch.floor)
        for rv, key, _ in self.log:
            if rv <= watch.after:
                continue
            now = self.state(rv, watch.namespace, watch.floor)
            if key in now:
                expected.append((rv, "MODIFIED" if key in seen else "ADDED", key, now[key]))
            elif key in seen:
                expected.append((rv, "DELETED", key, seen[key]))
            seen = now
        told = [(one.version.rv, one.change, one.version.key, one.version.obj["value"]) for one in watch.told]
        assert told == expected
        assert all(one.version.obj["metadata"]["resourceVersion"] == str(one.version.rv) for one in watch.told)

    @rule(target=pages, namespace=SPACES, size=st.integers(1, 4))
    def first_page(self, namespace, size):
        return self.page(self.store.revision, namespace, size, FIRST)

    @rule(target=pages, page=pages, size=st.integers(1, 4))
    def next_page(self, page, size):
        revision, namespace, after = page
        return self.page(revision, namespace, size, after)

    def page(self, revision, namespace, size, after):
        try:
            found = self.collection.snapshot(revision, namespace, after=after)
        except Compacted:
            assert revision < self.oldest()
            return multiple()
        assert revision >= self.oldest()
        expected = sorted((key, value) for key, value in self.state(revision, namespace).items() if key > after)
        assert [(one.key, one.obj["value"]) for one in found] == expected
        return (revision, namespace, found[size - 1].key) if len(found) > size else multiple()

    @invariant()
    def the_present_is_the_end_of_the_log(self):
        if hasattr(self, "collection"):
            present = {one.key: one.obj["value"] for one in self.collection.scan()}
            assert present == self.state(self.store.revision)
            assert list(present) == sorted(present)

    def teardown(self):
        for watch in getattr(self, "open", ()):
            watch.told += watch.subscription.take()
            self.check(watch)


Model.TestCase.settings = examples(60, stateful_step_count=40)
TestAnyInterleaving = Model.TestCase
