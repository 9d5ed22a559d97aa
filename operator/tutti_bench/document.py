"""The scenario file: scenarios, each with a template of operations and the workloads that fill it in.

The schema is scheduler_perf's (Kubernetes 1.36, test/integration/scheduler_perf), so its own files can be run. What
belongs to the scheduler itself (`featureGates`, `schedulerConfigPath`) is read, and left to whoever starts it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, InstanceOf, ValidationError

from tutti.api.problems import Problem, problems_of
from tutti_bench.operations.any import read_operation
from tutti_bench.operations.flow import StopCollecting
from tutti_bench.operations.frame import Operation
from tutti_bench.part import Part

_UNREAD = StopCollecting(opcode="stopCollectingMetrics")
"""Stands for an operation that could not be read, so that the rest of its scenario is looked at as well."""


class DocumentError(ValueError):
    """A file that cannot be run; the text says where and what would be right."""


class Selector(Part):
    """Which figure a threshold is for."""

    name: str
    labels: dict[str, str] = {}
    data_bucket: str
    expect_lower: bool = False
    """Whether the figure should stay below the threshold rather than above."""


THROUGHPUT = Selector(name="SchedulingThroughput", data_bucket="Average")
"""What a threshold is for, unless it says otherwise."""


class MetricLabel(Part):
    """A label of a histogram, and which of its values are wanted."""

    label: str
    values: list[str] = []


class Collecting(Part):
    """Which histograms of the scheduler are wanted."""

    metrics: dict[str, list[MetricLabel] | MetricLabel | None] = {}


class Workload(Part):
    """One run of a scenario, with values for its parameters."""

    name: str
    params: dict[str, Any] = {}
    labels: list[str] = []
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: Selector | None = None
    feature_gates: dict[str, bool] = {}


class Scenario(Part):
    """What is done, with parameters, and the workloads that say how much of it."""

    name: str
    feature_gates: dict[str, bool] = {}
    metrics_collector_config: Collecting | None = None
    workload_template: Annotated[list[InstanceOf[Operation]], Field(min_length=1)]
    workloads: Annotated[list[Workload], Field(min_length=1)]
    scheduler_config_path: str = ""
    default_pod_template_path: str = ""
    labels: list[str] = []
    default_threshold_metric_selector: Selector | None = None

    def selector(self, workload: Workload) -> Selector:
        """Return what a workload's threshold is for."""
        return workload.threshold_metric_selector or self.default_threshold_metric_selector or THROUGHPUT


def read(text: str, origin: str) -> list[Scenario]:
    """Read a scenario file.

    Raises:
        DocumentError: It is no YAML, or not such a file; the text names all that is wrong.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DocumentError(f"{origin}: no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, list):
        raise DocumentError(f"{origin}: must be a list of scenarios, each with name, workloadTemplate and workloads")
    problems: list[Problem] = []
    scenarios = [_read_scenario(entry, f"[{index}]", problems) for index, entry in enumerate(document)]
    names = [scenario.name for scenario in scenarios if scenario is not None]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        problems.append(Problem("", f"more than one scenario is named {', '.join(twice)}"))
    if problems:
        raise DocumentError(f"{origin}: {'; '.join(str(problem) for problem in problems)}")
    return [scenario for scenario in scenarios if scenario is not None]


def load(path: Path) -> list[Scenario]:
    """Read the scenario file at a path.

    Raises:
        DocumentError: It cannot be read, or is not such a file.
    """
    try:
        return read(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise DocumentError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DocumentError(f"{path}: no UTF-8: {error.reason}") from None


def _read_scenario(entry: Any, where: str, problems: list[Problem]) -> Scenario | None:
    """Read one scenario; what is wrong with it is added to `problems`, and then there is none."""
    before = len(problems)
    if isinstance(entry, dict):
        entry = {key: _operations(key, value, where, problems) for key, value in entry.items()}
    try:
        scenario = Scenario.model_validate(entry)
    except ValidationError as error:
        problems += [Problem(f"{where}.{path}".rstrip("."), message) for path, message in problems_of(error, Scenario)]
        return None
    return scenario if len(problems) == before else None


def _operations(key: Any, value: Any, where: str, problems: list[Problem]) -> Any:
    """Return the value of a scenario's field with the operations in it read, those that can be."""
    if str(key).lower() != "workloadtemplate" or not isinstance(value, list):
        return value
    read_ones = [read_operation(one) for one in value]
    for index, found in enumerate(read_ones):
        if isinstance(found, list):
            problems += [Problem(f"{where}.{key}[{index}].{path}".rstrip("."), message) for path, message in found]
    return [_UNREAD if isinstance(found, list) else found for found in read_ones]
