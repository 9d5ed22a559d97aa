"""The page of the configuration: every key of a TuttiConfiguration."""

from __future__ import annotations

from typing import Any

from handbook.fields import Field, fields, resolved, table
from tutti.api.configuration import KIND, TuttiConfiguration
from tutti.api.model import API_VERSION

INTRODUCTION = f"""# Configuration

One YAML file, given with `tutti run --config FILE`. Everything may be left out; a key that is not known, or a
value that cannot be, ends the start with its place and what would be right. Command line options go before the file.

```yaml
apiVersion: {API_VERSION}
kind: {KIND}
requireQueue: true
profiles:
- schedulerName: tutti
  acceleratorPacking: {{}}
```

In a cluster the file is `manifests/base/tutti.yaml`. `kubectl apply -k` makes a ConfigMap of it whose name changes with
its content, so that a change restarts the operator, which reads it at its start.
"""


def page() -> str:
    """The whole page, in Markdown."""
    schema = TuttiConfiguration.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    rows = fields(schema)
    plain = [row for row in rows if not _is_below(row, rows)]
    parts = [INTRODUCTION, f"\n## Everything\n\n{table(plain)}"]
    for name, child in schema["properties"].items():
        below = [row for row in rows if row.path.startswith((f"{name}.", f"{name}[]."))]
        if below:
            whole = resolved(child, definitions)
            parts.append(f"\n## {name}\n\n{_about(whole, definitions)}\n\n{table(below)}")
    return "".join(parts)


def _is_below(row: Field, rows: list[Field]) -> bool:
    return any(row.path.startswith((f"{other.path}.", f"{other.path}[]")) for other in rows)


def _about(whole: dict[str, Any], definitions: dict[str, Any]) -> str:
    described = resolved(whole["items"], definitions) if "items" in whole else whole
    return str(described.get("description", ""))
