"""On which nodes data is, and how long work waits for these, as an administrator writes it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from tutti.api.model import LabelKey, Model, ValidationRule

DATASET_LABEL: Final = "scheduling.tutti.dev/dataset"
"""The label of a pod that names the datasets it reads."""
SEPARATOR: Final = "_"
"""Stands between the names of several; no name of an object has it."""
MOST_DATASETS: Final = 8
"""Of one pod; those that come after are left out."""

LabelTemplate = Annotated[
    str,
    Field(
        max_length=316,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[-A-Za-z0-9_.{}]+$",
    ),
]
"""The key of a node label, with `{dataset}` where the name of the dataset stands, and `{namespace}` for its pod's."""


class DataLocalityArgs(Model):
    """Places pods near the data that they name in their label `scheduling.tutti.dev/dataset`."""

    node_labels: Annotated[list[LabelTemplate], Field(min_length=1, max_length=8)] = [
        "fluid.io/s-{namespace}-{dataset}"
    ]
    """What labels nodes have that hold a dataset, whatever their value but `false`. Left out: those of Fluid."""
    levels: Annotated[list[LabelKey], Field(max_length=4)] = []
    """How near other nodes are to these: labels of domains, the smallest first, such as those of racks, then zones."""
    wait_seconds: Annotated[int, Field(ge=0, le=86_400)] = 0
    """How long a workload waits for nodes that hold its data though it could go elsewhere; then as long again for nodes
    near those, level by level, and then it goes anywhere. 0: it does not wait."""
    weight: Annotated[int, Field(ge=1, le=100)] = 5
    """Of how near the data is, against the other scores, of which each has up to 100 points by its own weight."""
    RULES: ClassVar = (
        ValidationRule(
            message="each of nodeLabels needs {dataset} once, and may have {namespace} once",
            holds=lambda it: all(
                one.count("{dataset}") == 1
                and one.count("{namespace}") <= 1
                and "{" not in one.replace("{dataset}", "").replace("{namespace}", "")
                and "}" not in one.replace("{dataset}", "").replace("{namespace}", "")
                for one in it.node_labels
            ),
        ),
        ValidationRule(
            message="a label stands in levels twice",
            holds=lambda it: len(set(it.levels)) == len(it.levels),
        ),
    )


def datasets_in(label: str) -> tuple[str, ...]:
    """Return the datasets that the label of a pod names, each once, as many as are looked at."""
    return tuple(dict.fromkeys(filter(None, label.split(SEPARATOR))))[:MOST_DATASETS]
