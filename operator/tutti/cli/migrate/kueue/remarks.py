"""What is not as it was with the pods of an object that Kueue managed, in sentences.

What the operator makes of an object is asked of its own table; what Kueue does stands with each sentence.
"""

from __future__ import annotations

from typing import Any

from tutti.api.conventions import named_groups as ours
from tutti.api.model import GROUP
from tutti.cli.migrate.kueue import words
from tutti.cli.migrate.kueue.layouts import Layout
from tutti.cli.migrate.report import NoteLevel, Notes


def say_changes(layout: Layout, notes: Notes) -> None:
    """Tell what becomes of the gang of an object."""
    if len(layout.inner) > 1:
        happens = "what it wraps is admitted one by one, and not together"
        notes.add(
            NoteLevel.CHANGED, layout.under("spec.components"), happens, "see that the queue has room for all of it"
        )
    owner, kind = layout.owner, layout.kind
    if owner is None or kind is None:
        return
    for problem in owner.problems:
        path, _, message = problem.partition(": ")
        notes.add(NoteLevel.INVALID, layout.under(path), f"its pods would wait: {message}", "correct it by hand")
    if owner.one_by_one and layout.pods > 1:
        happens = "its pods are made one after the other, so each is admitted by itself"
        path = layout.under(owner.one_by_one.partition(" ")[0])
        notes.add(NoteLevel.CHANGED, path, happens, f"see that {owner.one_by_one}, and migrate again")
    if kind.numbers_of is not None and not kind.roles:
        happens = "its pods have the scheduler that its runtime names, which it cannot say otherwise"
        do = "write spec.schedulerName in the pod templates of the runtime that it names"
        notes.add(NoteLevel.LOST, layout.under("spec.runtimeRef"), happens, do)
    _say_stages(layout, notes)
    _say_roles(layout, notes)


def _say_stages(layout: Layout, notes: Notes) -> None:
    """Tell of roles that are made when others have succeeded: Kueue keeps quota for all of them from the start."""
    owner = layout.owner
    for one in owner.stages if owner is not None else ():
        if not one.finished or owner is None:
            continue
        before = ", ".join(name for index in one.finished for name in owner.stages[index].roles)
        happens = f"{', '.join(one.roles)}: admitted when {before} has succeeded, and no quota is kept for it before"
        path = next((part.path for part in layout.templates if part.role in one.roles), layout.said_at)
        notes.add(NoteLevel.CHANGED, path, happens, "nothing, if it may wait again between the two")


def _say_roles(layout: Layout, notes: Notes) -> None:
    """Tell of roles whose pods are not admitted with the others, or not placed here at all."""
    owner, kind = layout.owner, layout.kind
    if owner is None or kind is None:
        return
    written = {one.role for one in layout.templates}
    for role in owner.roles:
        described = next((one for one in kind.roles if one.form == "One" and one.name == role.name), None)
        if described is None:
            continue
        if role.name not in written and not described.scheduler:
            happens = (
                f"the template of role {role.name} is not written here, so its pods are placed by the default scheduler"
            )
            do = "write this template, and migrate again, if they are to be counted"
            notes.add(NoteLevel.CHANGED, layout.under(described.templates[0]), f"{happens}, without quota", do)
        elif role.later and not role.keeps_room and role.replicas:
            happens = (
                f"role {role.name}: its pods are admitted one by one after the others, and nothing is kept for them"
            )
            path = layout.under(described.path or "spec")
            notes.add(NoteLevel.CHANGED, path, happens, "see that the queue has room for them")


def say_left_alone(document: dict[str, Any], notes: Notes, *, scheduler: str) -> None:
    """Tell of Kueue's words in an object that is left as it is."""
    found = next(words.places(document), None)
    if found is None:
        return
    if found.is_key:
        happens = "left as it is: the pods of this kind are not known here, or it names no queue"
        do = f"give its pods schedulerName {scheduler} and the label {ours.QUEUE_NAME}"
    elif "apiGroups" in found.path:
        happens = "left as it is: it speaks of Kueue's kinds, and gives no rights to any of ours"
        do = f"name the group {GROUP} there, or bind the ClusterRole tutti-view, tutti-edit or tutti-admin"
    else:
        happens = "left as it is: it speaks of Kueue's names, which what is migrated does not have any more"
        do = f"put ours in their place: {words.QUEUE} is {ours.QUEUE_NAME} here"
    notes.add(NoteLevel.LOST, found.path, happens, do)


def say_left_over(document: dict[str, Any], notes: Notes) -> None:
    """Tell of Kueue's words in an object that was rewritten, where nothing has been told of them."""
    told = {one.path for one in notes.found}
    for one in words.places(document):
        if one.path not in told:
            notes.add(NoteLevel.LOST, one.path, "left as it is, but nothing reads it here", "check what it was for")
