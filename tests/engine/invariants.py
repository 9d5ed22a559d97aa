"""What must always hold of an engine, by what it has been told: the numbers are those of docs/architecture.md.

Histories of observations (`tests/engine/histories`) and the simulation of whole processes (`tests/simulation`) check the same.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from bench.simulation.recounting import recounted
from tutti.api.hami import UNOFFERED
from tutti.engine.cycle.engine import Engine
from tutti.engine.preemption.moves import home_of
from tutti.engine.reading.resolution import through_local_queue
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.workloads import Phase, WorkloadKey
from tutti.quota.holder_use import HolderUse
from tutti.quota.tree import QuotaTree
from tutti.quota.usage import overused_quota


class Invariants:
    """Checks of an engine after each of its decisions.

    Attributes:
        engine: The engine that decides.
        now: Its time.
        window: Seconds within which a gang that is bound in part is completed or taken out.
        whole: Gangs that have been running together: what they lose is no half start.
        partial: Since when gangs have been bound in part.
    """

    engine: Engine
    now: float

    def begin_watching(
        self, *, window: float, local_queues: tuple[str, ...], longest_bind: float = float("inf")
    ) -> None:
        """Begin.

        Args:
            window: Seconds of a bind window.
            local_queues: Those whose counts are checked.
            longest_bind: How long a bind may be under way, and the gang it is of bound in part meanwhile, in seconds.
        """
        self.window = window
        self.longest_bind = longest_bind
        self.local_queues = local_queues
        self.whole: set[WorkloadKey] = set()
        self.partial: dict[WorkloadKey, float] = {}
        self.short: dict[WorkloadKey, float] = {}

    def remember(self) -> None:
        """To be called before each decision."""
        state = self.engine.state
        self.reserved_before = {key for key, member in state.members.items() if member.charge or member.pod.assumed}
        self.held_before = {workload.name for workload in state.workloads.values() if state.ledger.holds(workload.name)}
        self.kept_before = {key: list(kept.spots) for key, kept in state.kept_for_successors.items()}
        self.moves_before = [
            (piece.home, piece.priority, place.node, place.amounts)
            for piece in state.moves.pieces()
            for place in piece.places
        ]
        self.short_before = {key: None for key, one in state.workloads.items() if one.degraded_since is not None}

    def pass_over(self, seconds: float) -> None:
        """Nothing could be written for so long: that counts for no window."""
        self.partial = {key: since + seconds for key, since in self.partial.items()}
        self.short = {key: since + seconds for key, since in self.short.items()}

    def check_state(self) -> None:
        """To be called after each decision."""
        self.check_room()
        self.check_quota()
        self.check_counts()
        self.check_users()
        self.check_overuse()
        self.check_waiting()
        self.check_gangs()
        self.check_whole()
        self.check_together()
        self.check_kept()
        self.check_moved()
        self.check_kept_quota()
        self.check_explanations()

    def newly_reserved(self) -> list[Any]:
        members = self.engine.state.members
        return [m for key, m in members.items() if m.pod.assumed and key not in self.reserved_before]

    def check_room(self) -> None:
        cluster = self.engine.state.cluster
        assert (cluster.nodes.requested == recounted(cluster)).all()
        for member in self.newly_reserved():
            row = cluster.nodes.rows[member.pod.assumed]
            for name, amount in member.pod.held.items():
                column = cluster.nodes.resource_index.column(name)
                fits = cluster.nodes.requested[row, column] <= cluster.nodes.allocatable[row, column]
                assert fits or not amount or name in UNOFFERED, f"{name} on {member.pod.assumed}"

    def check_quota(self) -> None:
        state = self.engine.state
        used: dict[str, dict[Any, int]] = {}
        charges = [m.charge for m in state.members.values()]
        charges += [h.charge for w in state.workloads.values() for g in w.groups.values() for h in g.holds]
        charges += [g.held.charge for w in state.workloads.values() for g in w.groups.values() if g.held is not None]
        charges += [
            charge for one in state.kept_for_successors.values() for charge, pods in one.charges for _ in range(pods)
        ]
        charges += state.moves.charges()
        nominated = [pair for one in state.nominations.ours.values() for pair in one.charges]
        anew = self.tree_of([*charges, *(charge for charge, pods in nominated for _ in range(pods))], used)
        ledger = state.ledger
        counted = {queue: Counter(ledger.used(queue)) for queue in ledger.queues()}
        handed: Counter[Any] = Counter()
        for one in ledger.handed():
            counted[one.queue].update(one.usage)
            handed.update(one.usage)
            anew.remove(one.queue, one.usage)
        assert {q: u for q, u in counted.items() if u} == {q: Counter(u) for q, u in used.items() if any(u.values())}
        meant: Counter[Any] = Counter()
        for charge, pods in nominated:
            meant.update({what: amount * pods for what, amount in charge.usage.items()})
        assert handed <= meant, "quota is handed over to nobody"
        for name, node in anew.queues.items():
            for what in node.quotas:
                assert node.available(what) == state.ledger.tree.queues[name].available(what)
        reserving = [member.charge for member in self.newly_reserved() if member.charge is not None]
        reserved = self.tree_of(charges, used) if reserving else anew
        for charge in reserving:
            node = reserved.queues[charge.queue]  # what is held for others is more than there is
            assert all(node.available(what) >= 0 for what in charge.usage), (
                charge,
                {what: (node.available(what), node.nominal(what)) for what in node.quotas},
            )
        for member in state.members.values():
            assert member.charge is None or member.pod.place, f"{member.pod.name} uses quota and no room"
            lost = member.pod.node and member.pod.deleting and not state.cluster.is_working(member.pod.node)
            assert member.charge is None or not lost, f"{member.pod.name} is lost and uses quota"
            if member.charge is not None:
                amounts = member.pod.held if member.pod.granted is None else member.pod.granted
                granted = {what: amounts.get(what[1], 0) for what in member.charge.usage}
                assert member.charge.usage == granted, f"{member.pod.name} does not use what it was granted"

    def check_users(self) -> None:
        """What users and groups have is what their workloads hold, counted anew, and no admission was beyond a limit."""
        state = self.engine.state
        use = state.ledger.held_for
        if not use.on:
            return
        anew = HolderUse()
        for name in (workload.name for workload in state.workloads.values()):
            anew.name(name, use.holders(name))
            for queue, usage in state.ledger.used_by(name):
                anew.add(queue, name, usage, 1, accounts=1)
        for one in state.ledger.handed():
            anew.add(one.queue, one.who, one.usage, 1)
        for queue in state.catalog.queues:
            holders = use.holders_in(queue)
            assert holders == anew.holders_in(queue)
            for holder in holders:
                has, counted = use.of(queue, holder), anew.of(queue, holder)
                assert (has.resources, has.workloads.keys()) == (counted.resources, counted.workloads.keys())
        for member in self.newly_reserved():
            queue = None if member.charge is None else state.catalog.queues.get(member.charge.queue)
            for holder in () if queue is None or member.charge is None else use.holders(member.charge.holder):
                allowed = queue.user_limits.allowed(holder)
                has = use.of(queue.name, holder)
                for resource, most in {} if allowed is None else allowed.resources.items():
                    asked = sum(amount for what, amount in member.charge.usage.items() if what[1] == resource)
                    assert not asked or has.resources[resource] <= most, (holder, has, most)
                if (
                    allowed is not None
                    and allowed.workloads is not None
                    and member.charge.holder not in self.held_before
                ):
                    assert len(has.workloads) <= allowed.workloads, (holder, has)

    def check_counts(self) -> None:
        """What queues say of themselves is what their workloads hold, counted anew."""
        state = self.engine.state
        held: dict[str, dict[Any, int]] = {}
        leaving: dict[str, int] = {}
        handed = {one.who: one.usage for one in state.ledger.handed()}
        for key, workload in state.workloads.items():
            charges = [m.charge for m in workload.members()]
            charges += [h.charge for g in workload.groups.values() for h in g.holds]
            charges += [g.held.charge for g in workload.groups.values() if g.held is not None]
            kept = state.kept_for_successors.get(key)
            charges += [c for c, pods in (kept.charges if kept else ()) for _ in range(pods)]
            nominated = state.nominations.ours.get(key)
            charges += [c for c, pods in (nominated.charges if nominated else ()) for _ in range(pods)]
            charges += [one for one in state.moves.charges() if one.holder == workload.name]
            name = f"{key[1]}/{workload.queue}"
            for charge in charges:
                for what, amount in (charge.usage if charge and workload.queue else {}).items():
                    mine = held.setdefault(name, {})
                    mine[what] = mine.get(what, 0) + amount
            for what, amount in handed.get(workload.name, {}).items() if workload.queue else ():
                held[name][what] -= amount
            if workload.phase is Phase.LEAVING and workload.queue:
                leaving[name] = leaving.get(name, 0) + 1
        for name in self.local_queues:
            count = state.counts.of(name)
            assert {what: n for what, n in count.reserved.items() if n} == {
                what: n for what, n in held.get(name, {}).items() if n
            }, name
            assert count.leaving == leaving.get(name, 0), name

    def check_overuse(self) -> None:
        """Whoever uses more quota than there is has been told, and nobody else."""
        tree = self.engine.state.ledger.tree
        found = {("ClusterQueue", "", name) for name, node in tree.queues.items() if overused_quota(node)}
        found |= {("Cohort", "", name) for name, node in tree.cohorts.items() if overused_quota(node)}
        assert self.engine.state.overuses.reported.keys() == found

    def check_waiting(self) -> None:
        """Who is said to wait, and for what, is what a walk through all workloads finds."""
        found: dict[tuple[str, ...], Counter[str]] = {}
        for workload in self.engine.state.workloads.values():
            if workload.phase in (Phase.LEAVING, Phase.FINISHED) or not workload.active:
                continue
            members, why = list(workload.members()), workload.explanation
            there = workload.waits_without_members or any(not m.pod.terminated and not m.pod.deleting for m in members)
            whole = workload.phase in (Phase.RESERVED, Phase.CHECKING) or (workload.phase is Phase.WAITING and there)
            gate, reason = ("", "") if why is None else (why.gate.value, why.reason)
            place = (workload.counted[1], workload.phase.value, gate, reason, workload.counted[0])
            waiting = sum(m.pod.placeable for m in members)
            gated = sum(m.pod.gated and not (m.pod.terminated or m.pod.deleting or m.pod.place) for m in members)
            mine = found.setdefault(place, Counter())
            mine.update({"workloads": int(whole), "pods": waiting, "gated": gated})
        waiting_now = self.engine.state.waiting_counts.places()
        said = {place: Counter(workloads=c.workloads, pods=c.pods, gated=c.gated) for place, c in waiting_now.items()}
        assert said == {place: numbers for place, numbers in found.items() if any(numbers.values())}

    def tree_of(self, charges: list[Any], used: dict[str, dict[Any, int]]) -> QuotaTree:
        """A tree in which just these charges are used; `used` is filled with them."""
        catalog = self.engine.state.catalog
        used.clear()
        for charge in charges:
            if charge is not None:
                mine = used.setdefault(charge.queue, {})
                for what, amount in charge.usage.items():
                    mine[what] = mine.get(what, 0) + amount
        tree = QuotaTree({n: (q.cohort, q.quotas) for n, q in catalog.queues.items()}, catalog.cohorts)
        for queue, usage in used.items():
            tree.add(queue, usage)
        return tree

    def check_gangs(self) -> None:
        for key, workload in self.engine.state.workloads.items():
            if key[0] == "Pod" or not workload.uid or workload.problem is not None:
                self.partial.pop(key, None)
                self.whole.add(key)  # how many it needs is not known, so what runs of it is left alone
                continue
            bound = [m for m in workload.members() if m.pod.node and not m.pod.terminated]
            running = [m for m in bound if not m.pod.deleting and not m.evicting]
            if workload.complete or workload.brought_together:  # what fails after that was no half-started gang
                self.whole.add(key)
            elif not bound:
                self.whole.discard(key)
            if workload.complete or key in self.whole or not running:
                self.partial.pop(key, None)
                continue
            waited_for = any(m.pod.assumed for m in workload.members())
            if waited_for and self.longest_bind == float("inf"):
                self.partial.pop(key, None)
                continue
            since = self.partial.setdefault(key, self.now)
            most = self.window + (self.longest_bind if waited_for else 0.0)
            assert self.now - since <= most, f"{key} is bound in part: {[m.pod.name for m in running]}"

    def check_whole(self) -> None:
        """No gang runs on fewer members than it needs for longer than its window.

        Who is told to end on a node that does not work is no member: nobody says when it has ended.
        """
        cluster = self.engine.state.cluster
        for key, workload in self.engine.state.workloads.items():
            windows = [
                g.on_loss for g in workload.groups.values() if g.on_loss is not None and self.is_short(cluster, g)
            ]
            windows = [one.window_seconds for one in windows if one.action == "Restart"]
            runs = key[0] != "Pod" and workload.phase is Phase.SCHEDULED and workload.problem is None
            # In a queue that admits nothing now it could not start again, so it is left alone until it could.
            closed = workload.queue and isinstance(
                through_local_queue(self.engine.state.catalog, workload), Explanation
            )
            if not runs or not windows or closed:
                self.short.pop(key, None)
                continue
            on_the_way = any(m.pod.assumed for m in workload.members())
            most = min(windows) + (self.longest_bind if on_the_way else 0.0)
            since = self.short.setdefault(key, self.now)
            assert self.now - since <= most, f"{key} runs with fewer members than it needs since {since}"

    def is_short(self, cluster: Any, group: Any) -> bool:
        """Whether so few members of a group are left that it is not whole."""
        done = sum(m.pod.phase == "Succeeded" for m in group.members.values()) + group.ended
        there = [m.pod for m in group.members.values() if m.pod.node and not m.pod.terminated]
        return done + sum(not pod.deleting or cluster.is_working(pod.node) for pod in there) < group.min_count

    def check_together(self) -> None:
        """What a degraded gang needs to be whole again has nodes together, or none of it has."""
        state = self.engine.state
        for member in self.newly_reserved():
            key, name = state.pod_group_of[member.pod.key]
            workload = state.workloads[key]
            group = workload.groups[name]
            if key not in self.short_before or workload.phase is not Phase.SCHEDULED or group.on_loss is None:
                continue
            earlier = any(m.pod.assumed and each in self.reserved_before for each, m in group.members.items())
            if group.on_loss.action == "Restart" and not earlier:
                assert not group.missing, f"{member.pod.name} is placed, and {group.missing} of {key} are not"

    def check_kept(self) -> None:
        """Nobody who is not more important has got room that was kept for the successors of what a gang has lost.

        Who is more important may have it. So of what a member has not asked for, or would have found but for those, it
        has taken nothing.
        """
        state, newly = self.engine.state, self.newly_reserved()
        nodes = state.cluster.nodes
        for member in newly:
            mine = self.engine.state.pod_group_of[member.pod.key][0]
            row = nodes.rows[member.pod.assumed]
            for key, kept in state.kept_for_successors.items():
                if key == mine or member.pod.priority > kept.priority:
                    continue
                above = [m.pod for m in newly if m.pod.priority > kept.priority and m.pod.assumed == member.pod.assumed]
                spots = [one for one in self.kept_before.get(key, ()) if one in kept.spots]
                for _, amounts in (spot for spot in spots if spot[0] == member.pod.assumed):
                    for name in amounts.keys() & {what for what, asked in member.pod.held.items() if asked}:
                        column = nodes.resource_index.column(name)
                        left = nodes.allocatable[row, column] - nodes.requested[row, column]
                        left += sum(pod.held.get(name, 0) for pod in above)
                        kept_free = left >= amounts[name] or name in UNOFFERED
                        assert kept_free, f"{member.pod.name} has room on {member.pod.assumed} kept for {key}"

    def check_moved(self) -> None:
        """Who is being moved keeps its place from whoever is not more important, and no queue keeps more than one plan."""
        state = self.engine.state
        nodes, new = state.cluster.nodes, self.newly_reserved()
        kept = [
            (piece.home, piece.priority, place.node, place.amounts)
            for piece in state.moves.pieces()
            for place in piece.places
        ]
        gone = {place.pod for piece in state.moves.pieces() for place in piece.places}
        for member in new:
            home = home_of(state.workloads[state.pod_group_of[member.pod.key][0]])
            row = nodes.rows[member.pod.assumed]
            there = {pod.key for pod in state.cluster.on_node(member.pod.assumed)}
            for one in kept:
                same = one[0] == home or one[2] != member.pod.assumed or one not in self.moves_before
                if same or member.pod.priority > one[1] or there & gone:
                    continue
                for name, amount in one[3].items():
                    column = nodes.resource_index.column(name)
                    left = nodes.allocatable[row, column] - nodes.requested[row, column]
                    assert left >= amount, f"{member.pod.name} has room on {one[2]} that is kept for {one[0]}"

    def check_kept_quota(self) -> None:
        """The quota of what a degraded gang has lost is in use for it, as far as its queue has it."""
        state = self.engine.state
        for key, workload in state.workloads.items():
            queue = state.catalog.queues.get(workload.cluster_queue)
            if workload.degraded_since is None or key in state.nominations.ours or queue is None:
                continue
            kept = state.kept_for_successors.get(key)
            left = sum(pods for _, pods in kept.charges) if kept else 0
            for group in workload.groups.values():
                for loss in [one for one in workload.losses if one.group == group.name][: group.missing]:
                    counted = {name: flavor for name, flavor in loss.flavors.items() if (flavor, name) in queue.quotas}
                    usage = {(flavor, name): loss.amounts.get(name, 0) for name, flavor in counted.items()}
                    left -= bool(usage)
                    room = state.ledger.room_for(queue.name, usage) if usage and left < 0 else 0
                    assert room < 1, f"{key} has lost a member whose quota anybody may have"

    def check_victims(self, evictions: list[Any]) -> None:
        """Our own evictions leave no gang with fewer members than it needs: surplus leaves, or all of it does."""
        state = self.engine.state
        asked: dict[tuple[WorkloadKey, str], int] = {}
        for one in evictions:
            home = state.pod_group_of.get((one.namespace, one.name))
            if home is not None:
                asked[home] = asked.get(home, 0) + 1
        for (key, name), count in asked.items():
            workload = state.workloads[key]
            if key[0] == "Pod" or workload.phase is not Phase.SCHEDULED or workload.leaves_by_pod:
                continue
            group = workload.groups[name]
            members = group.members.values()
            done = sum(m.pod.phase == "Succeeded" for m in members) + group.ended
            there = [m for m in members if m.pod.node and not (m.pod.terminated or m.pod.deleting)]
            left = done + sum(m.leave is None for m in there)
            together = any(m.claim.leaves_together for m in members)
            before = left + count
            assert left >= group.min_count or before < group.min_count or together, (
                f"{count} members of {key} are asked to leave, and {left} of {group.min_count} are left"
            )

    def check_explanations(self) -> None:
        for workload in self.engine.state.workloads.values():
            waits = any(m.pod.placeable for m in workload.members()) and workload.phase is Phase.WAITING
            assert not waits or workload.explanation is not None, f"{workload.name} waits and nobody knows why"
