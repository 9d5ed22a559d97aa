"""The migrated form of each manifest in `kueue/`; `python -m tests.cli.migrate.golden` writes it anew, to be read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tutti.cli.migrate.kueue.jobs import Run
from tutti.cli.migrate.kueue.rewriting import rewrite
from tutti.cli.migrate.report import report_text
from tutti.cli.migrate.streams import Migrated, documents, migrate

FOLDER = Path(__file__).parent / "kueue"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def given(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text()


def migrated(name: str) -> Migrated:
    """All that a manifest says rewritten, whatever of it this version does already."""
    run = Run(unsupported=())
    for one in documents(given(name)):
        run.provisioning.add(one)
    return migrate(given(name), f"{name}.yaml", partial(rewrite, run=run))


def report(found: Migrated) -> str:
    return "\n".join(report_text(found.entries, found.passed)) + "\n"


def main() -> None:
    for name in NAMES:
        found = migrated(name)
        (FOLDER / "expected" / f"{name}.yaml").write_text(found.text)
        (FOLDER / "expected" / f"{name}.txt").write_text(report(found))


if __name__ == "__main__":
    main()
