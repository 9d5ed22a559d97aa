"""The bill of materials: complete, well-formed, and the same every time."""

from __future__ import annotations

import importlib.metadata
import re
import uuid

import pytest

from release.sbom import LOCK, bill, read_lock

TEXT = LOCK.read_text()
PACKAGES = read_lock(TEXT)
BILL = bill(PACKAGES, "1.2.3")


def test_every_package_of_the_image_is_listed_with_its_hashes():
    locked = re.findall(r"(?m)^([\w.-]+==[^\s;\\]+)", TEXT)

    assert [f"{one.name}=={one.version}" for one in PACKAGES] == [line.lower().replace("_", "-") for line in locked]
    listed = [
        digest["content"]
        for one in BILL["components"]
        for reference in one["externalReferences"]
        for digest in reference["hashes"]
    ]
    assert listed == re.findall(r"--hash=sha256:([0-9a-f]{64})", TEXT)
    assert all(one["externalReferences"][0]["hashes"] for one in BILL["components"])


def test_what_depends_on_what_refers_to_what_is_listed():
    known = {one["bom-ref"] for one in BILL["components"]} | {BILL["metadata"]["component"]["bom-ref"]}
    needs = {one["ref"]: one["dependsOn"] for one in BILL["dependencies"]}

    assert needs.keys() == known
    assert all(set(found) <= known for found in needs.values())
    direct = {ref.partition("@")[0] for ref in needs["pkg:pypi/tutti@1.2.3"]}
    assert {"pkg:pypi/kopf", "pkg:pypi/numpy", "pkg:pypi/kubernetes"} <= direct
    assert "pkg:pypi/pytest" not in direct


def test_every_package_that_is_installed_and_says_its_licence_has_it_in_the_bill():
    for one in BILL["components"]:
        try:
            said = importlib.metadata.metadata(one["name"])
        except importlib.metadata.PackageNotFoundError:
            continue
        if said["License-Expression"]:
            assert one["licenses"] == [{"expression": said["License-Expression"]}]


def test_the_same_lock_gives_the_same_bill_and_another_one_another():
    assert bill(PACKAGES, "1.2.3") == BILL
    assert bill(PACKAGES[1:], "1.2.3")["serialNumber"] != BILL["serialNumber"]
    assert uuid.UUID(BILL["serialNumber"].removeprefix("urn:uuid:")).version == 5


@pytest.mark.parametrize(
    ("line", "marker"),
    [
        ("a_b==1.0 ; sys_platform != 'win32' \\\n    --hash=sha256:" + "0" * 64, "sys_platform != 'win32'"),
        ("a_b==1.0 \\\n    --hash=sha256:" + "0" * 64, ""),
    ],
)
def test_a_line_of_a_lock_is_read_with_its_marker(line, marker):
    (one,) = read_lock(f"# made by a tool\n{line}\n")
    assert (one.name, one.version, one.marker, one.hashes) == ("a-b", "1.0", marker, ("0" * 64,))
    assert one.purl == "pkg:pypi/a-b@1.0"
