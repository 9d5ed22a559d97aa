"""What each view says of the scene, word for word; `python -m tests.cli.views.golden` writes it anew, to be read."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.cli.views.staging import called, staged

FOLDER = Path(__file__).parent / "golden"

VIEWS: Mapping[str, str] = {
    "queue": "queue",
    "queue-vision": "queue vision",
    "queue-all": "queue --all",
    "top-nodes": "top nodes",
    "top-models": "top nodes --models -r cpu -r nvidia.com/gpu",
    "gangs": "gangs",
    "gangs-waiting": "gangs --waiting -n vision",
    "drain-budget": "drain-check a100-4",
    "drain-bare": "drain-check h100-1",
    "drain-empty": "drain-check a100-6",
    "explain-gather": "explain workload vision/warmup",
    "explain-queue": "explain workload serving/batch",
    "explain-quota": "explain workload vision/train-2",
    "explain-placement": "explain workload -n serving llm",
    "explain-running": "explain workload speech/tune-0",
}
"""Name of the file -> what is called."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        with staged(kubeconfig):
            for name, line in VIEWS.items():
                (FOLDER / f"{name}.txt").write_text(called(kubeconfig, *line.split()).output)


if __name__ == "__main__":
    main()
