"""Writes the chart into a folder, or says with --check what there differs from it.

python -m release.chart [--check] manifests/chart
python -m release.chart --image ghcr.io/owner/tutti --digest sha256:... --home https://... build/chart/tutti
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from release.chart.metadata import Release, chart_yaml, readme
from release.chart.sources import Sources
from release.chart.templates import files, templates
from release.chart.values import SKELETON, described, schema, values

NOTE = "{{- /* Made by `make chart` from manifests/: change those instead. */ -}}\n"


def chart(release: Release | None = None) -> dict[str, str]:
    """The text of each file of the chart, by its path in it; of one to be published, with where its image is.

    Raises:
        ValueError: a file of `manifests/` is in no template.
    """
    sources = Sources()
    properties = described(sources)
    if release is not None:
        image = properties["image"]["properties"]
        image["repository"]["default"], image["digest"]["default"] = release.image, release.digest
    made = {
        "Chart.yaml": chart_yaml(release),
        "README.md": readme(properties),
        "values.yaml": values(properties),
        "values.schema.json": schema(properties),
        **files(sources),
        **{path: NOTE + text for path, text in templates(sources).items()},
    }
    for file in sorted(SKELETON.rglob("*")):
        path = str(file.relative_to(SKELETON))
        if file.is_file() and path not in made:  # those two are made of what stands there
            made[path] = file.read_text(encoding="utf-8")
    if forgotten := sources.forgotten():
        raise ValueError(
            f"in no template of the chart: {', '.join('manifests/' + one for one in forgotten)}; "
            "name each in release/chart/templates.py, and its value in release/chart/skeleton/values.yaml"
        )
    return made


def differences(folder: Path) -> list[str]:
    """The files of a folder that are not as they would be made, are missing, or should not be there."""
    made = chart()
    there = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    stale = (path for path in made if path not in there or (folder / path).read_text(encoding="utf-8") != made[path])
    return sorted([*stale, *(there - made.keys())])


def write(folder: Path, release: Release | None = None) -> None:
    """Write every file, and delete what should not be there."""
    made = chart(release)
    for file in [file for file in folder.rglob("*") if file.is_file()]:
        if str(file.relative_to(folder)) not in made:
            file.unlink()
    for path, text in made.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Write or check; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m release.chart", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing, and exit with 1 if anything differs")
    for name in Release._fields:
        parser.add_argument(f"--{name}", help="of a chart to be published; all three, or none")
    options = parser.parse_args(arguments)
    said = [getattr(options, name) for name in Release._fields]
    if any(said) and not all(said):
        parser.error("--image, --digest and --home go together")
    if not options.check:
        write(options.folder, Release(*said) if all(said) else None)
        return 0
    for path in (found := differences(options.folder)):
        print(f"{options.folder / path}: not as `make chart` makes it", file=sys.stderr)  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
