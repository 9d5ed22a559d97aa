"""Finds and makes the plugins of users that the configuration enables.

A plugin is an entry point of the group `tutti.plugins`: a class, or whatever else makes one when called. Where it has
an attribute `Arguments`, a pydantic model or a msgspec struct, its arguments are read into one of these and that is
handed over; otherwise they are handed over by keyword.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel, ValidationError

from tutti.api.configuration import TuttiConfiguration
from tutti.api.extensions import PluginUse
from tutti.api.problems import ConfigurationError, FieldProblem, nearest, problems_of
from tutti.engine.records.plugins import Enabled, PermitPlugin, Plugins, SortPlugin
from tutti.placement.extension import FilterPlugin, PolicyPlugin, ScorePlugin
from tutti.placement.policy_features import UnknownFeatureError, check_features
from tutti.placement.policy_file import MOST_BYTES, LearnedPolicy, PolicyFileError, UnreadPolicy, read_policy

GROUP = "tutti.plugins"
LEARNED = "learnedScore"
"""What the learned policy of a profile is called where plugins are named."""
_POINTS = (FilterPlugin, ScorePlugin, PolicyPlugin, SortPlugin, PermitPlugin)
_SCORING = (ScorePlugin, PolicyPlugin)


class _Unusable(Exception):  # noqa: N818 - it says what the plugin is
    """A plugin that cannot be made; says why."""

    def __init__(self, *problems: FieldProblem) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


LearnedPolicies = Mapping[str, LearnedPolicy | UnreadPolicy]
"""The learned policy of each profile that has one, by its schedulerName."""


def read_policies(configuration: TuttiConfiguration) -> LearnedPolicies:
    """Return the learned policies that the profiles name, as their files are now."""
    learned = ((one.scheduler_name, one.learned_score) for one in configuration.profiles)
    return {name: _learned_policy(Path(said.file)) for name, said in learned if said is not None}


def load_plugins(configuration: TuttiConfiguration, learned: LearnedPolicies | None = None) -> Plugins:
    """Return the plugins that the profiles enable, made with their arguments.

    Args:
        configuration: What enables them.
        learned: The learned policies; read from their files if not given.

    Raises:
        ConfigurationError: One is not installed, cannot be made with its arguments, or does not fit the others.
    """
    problems: list[FieldProblem] = []
    plugins: dict[str, list[Enabled]] = {}
    learned = read_policies(configuration) if learned is None else learned
    installed = _installed() if any(profile.user_plugins for profile in configuration.profiles) else {}
    for index, profile in enumerate(configuration.profiles):
        enabled = plugins.setdefault(profile.scheduler_name, [])
        for place, use in enumerate(profile.user_plugins):
            path = f"profiles[{index}].userPlugins[{place}]"
            try:
                enabled.append(Enabled(use.name, _made(use, installed), use.weight))
            except _Unusable as error:
                problems += [FieldProblem(f"{path}.{one.path}", one.message) for one in error.problems]
        if profile.learned_score is not None:
            policy = learned[profile.scheduler_name]
            enabled.append(Enabled(LEARNED, policy, profile.learned_score.weight))
    problems += _unsorted(configuration, plugins)
    if problems:
        raise ConfigurationError("plugins", problems)
    return plugins


def _learned_policy(path: Path) -> LearnedPolicy | UnreadPolicy:
    """Return the policy of a file, or what stands in for it and says why it cannot be used."""
    try:
        with path.open("rb") as file:
            return read_policy(file.read(MOST_BYTES + 1))
    except PolicyFileError as error:
        return UnreadPolicy(f"{path}: {error}")
    except (OSError, ValueError) as error:  # a path may hold what no path may
        return UnreadPolicy(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")


def unread_policies(plugins: Plugins) -> dict[str, str]:
    """Return what is wrong with learned policies that cannot be used, by the schedulerName of their profile."""
    return {
        scheduler: one.plugin.problem
        for scheduler, enabled in plugins.items()
        for one in enabled
        if isinstance(one.plugin, UnreadPolicy)
    }


def _installed() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for one in entry_points(group=GROUP):
        found.setdefault(one.name, []).append(one)
    return found


def _made(use: PluginUse, installed: Mapping[str, list[EntryPoint]]) -> object:
    """Import and make one plugin.

    Raises:
        _Unusable: It cannot be.
    """
    offers = installed.get(use.name, [])
    if not offers:
        known = nearest(use.name, sorted(installed)) if installed else "none is installed"
        raise _Unusable(
            FieldProblem("name", f"no package offers a plugin {use.name!r} (entry points {GROUP}); {known}")
        )
    if len(offers) > 1:
        who = ", ".join(sorted(one.dist.name if one.dist else one.value for one in offers))
        raise _Unusable(FieldProblem("name", f"{use.name!r} is offered by several packages: {who}; keep one"))
    try:
        factory = offers[0].load()
    except Exception as error:  # foreign code: whatever its import ends with is what the administrator must know
        raise _Unusable(FieldProblem("name", f"{offers[0].value} cannot be imported: {error!r}")) from error
    plugin = _called(factory, use.args)
    if not isinstance(plugin, _POINTS):
        raise _Unusable(FieldProblem("name", f"{offers[0].value} has no method filter, score, policy, sort or permit"))
    if isinstance(plugin, PolicyPlugin):
        try:
            check_features(plugin.policy_features_version, plugin.policy_features)
        except UnknownFeatureError as error:
            raise _Unusable(FieldProblem("name", f"{offers[0].value}: {error}")) from error
    if use.weight != 1 and not isinstance(plugin, _SCORING):
        raise _Unusable(FieldProblem("weight", f"counts only for a plugin that scores, and {use.name} does not"))
    return plugin


def _called(factory: Callable[..., object], args: Mapping[str, Any]) -> object:
    model = getattr(factory, "Arguments", None)
    try:
        if model is None:
            return factory(**args)
        if issubclass(model, BaseModel):
            return factory(model.model_validate(args))
        return factory(msgspec.convert(args, model))
    except ValidationError as error:
        found = problems_of(error, model or BaseModel)
        problems = [FieldProblem(f"args.{one.path}" if one.path else "args", one.message) for one in found]
        raise _Unusable(*problems) from error
    except (ValueError, TypeError) as error:  # msgspec's errors are ValueErrors, too
        raise _Unusable(FieldProblem("args", str(error))) from error


def _unsorted(configuration: TuttiConfiguration, plugins: Plugins) -> Iterator[FieldProblem]:
    """Yield what is wrong with the sort plugins: there is one queue order, so all profiles must have the same one."""
    orders = []
    for index, profile in enumerate(configuration.profiles):
        sorting = {one.name for one in plugins[profile.scheduler_name] if isinstance(one.plugin, SortPlugin)}
        uses = [(use.name, use.args) for use in profile.user_plugins if use.name in sorting]
        if len(uses) > 1:
            names = ", ".join(name for name, _ in uses)
            yield FieldProblem(f"profiles[{index}].userPlugins", f"only one plugin can sort, not {names}")
        orders.append(uses)
    if any(one != orders[0] for one in orders):
        yield FieldProblem("profiles", "a plugin that sorts must be the same, with the same args, in every profile")
