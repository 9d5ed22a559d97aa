"""Makes `kubectl-tutti` as one file for one platform.

python -m release.standalone --platform linux-x86_64 --python 3.11 --python 3.12 build/kubectl-tutti
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / "requirements-runtime.lock"
WHEELS: Final = {
    "linux-x86_64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux2010_x86_64"),
    "linux-aarch64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "darwin-arm64": ("macosx_14_0_arm64", "macosx_11_0_arm64", "macosx_11_0_universal2", "macosx_10_9_universal2"),
    "darwin-x86_64": ("macosx_14_0_x86_64", "macosx_11_0_x86_64", "macosx_10_9_x86_64", "macosx_10_9_universal2"),
}
"""The tags of wheels that run on a platform, as `sys.platform` and the machine name it."""
PYTHONS: Final = ("3.11", "3.12", "3.13")
UNUSED: Final = ("kubernetes/aio/", "bin/", "__pycache__/")
"""What nothing of ours imports, by the beginning of its path; tests are left out wherever they are."""
MOMENT: Final = (2020, 1, 1, 0, 0, 0)
"""When every file was made: the same files give the same archive."""


def installed(python: str, platform: str, folder: Path) -> None:
    """Put what a Python of a platform needs into a folder, by the lock file, and the operator.

    Raises:
        subprocess.CalledProcessError: pip could not, and has said why.
    """
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-compile",
    ]
    tags = [f"--platform={tag}" for tag in WHEELS[platform]]
    wheels = ["--only-binary=:all:", f"--python-version={python}", "--implementation=cp", *tags]
    subprocess.run([*pip, "--require-hashes", *wheels, "--target", str(folder), "-r", str(LOCK)], check=True)
    with tempfile.TemporaryDirectory() as made:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        [wheel] = Path(made).glob("*.whl")
        zipfile.ZipFile(wheel).extractall(folder)


def contents(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of a folder that are wanted, by their paths in it."""
    for file in sorted(folder.rglob("*")):
        path = str(file.relative_to(folder))
        if file.is_file() and not path.startswith(UNUSED) and not {"tests", "__pycache__"} & set(file.parts):
            yield path, file


def archive(folders: Mapping[str, Path], platform: str, target: Path) -> None:
    """Write the archive from what each Python needs (by `cp311` and the like): what is the same for all, only once."""
    digests = {
        python: {path: hashlib.sha256(file.read_bytes()).hexdigest() for path, file in contents(folder)}
        for python, folder in folders.items()
    }
    first, *others = digests.values()
    shared = {path for path, digest in first.items() if all(one.get(path) == digest for one in others)}
    entries = {f"shared/{path}": next(iter(folders.values())) / path for path in sorted(shared)}
    for python, known in digests.items():
        entries |= {f"{python}/{path}": folders[python] / path for path in sorted(known.keys() - shared)}
    content = hashlib.sha256(
        repr(sorted((python, *one.items()) for python, one in digests.items())).encode()
    ).hexdigest()
    about = f"content={content}\nplatform={platform}\npythons={','.join(folders)}\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            _put(packed, "__main__.py", Path(__file__).with_name("bootstrap.py").read_bytes())
            _put(packed, "FOR", about.encode())
            for name, source in entries.items():
                _put(packed, name, source.read_bytes())
    target.chmod(0o755)


def _put(packed: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, MOMENT)
    entry.compress_type = zipfile.ZIP_DEFLATED
    packed.writestr(entry, data)


def main(arguments: list[str]) -> int:
    """Make one archive; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m release.standalone", description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--platform", choices=WHEELS, default="linux-x86_64")
    parser.add_argument("--python", action="append", help=f"may be given several times; {', '.join(PYTHONS)}")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folders = {}
        for python in options.python or PYTHONS:
            folder = folders["cp" + python.replace(".", "")] = Path(scratch) / python
            installed(python, options.platform, folder)
        archive(folders, options.platform, options.target)
    print(f"{options.target}: {options.target.stat().st_size / 1e6:.1f} MB")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
