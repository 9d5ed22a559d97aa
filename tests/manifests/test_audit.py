"""`make audit` tells "nothing is known" from "I could not ask"."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.manifests.check import ROOT

FOUND = "Found 1 known vulnerability in 1 package\nName Version ID\nidna 3.1 PYSEC-1"
UNKNOWN = "Name Skip Reason\nidna Dependency not found on PyPI and could not be audited: idna (3.1)"


@pytest.mark.parametrize(
    ("says", "ends", "code", "told"),
    [
        ("No known vulnerabilities found", 0, 0, "No known vulnerabilities"),
        (FOUND, 1, 1, "PYSEC-1"),
        (f"No known vulnerabilities found\n{UNKNOWN}", 0, 3, "audit: 1 packages are unknown"),
        (f"{FOUND}\n{UNKNOWN}", 1, 1, "PYSEC-1"),
        ("ERROR: requests.exceptions.ConnectionError", 1, 3, "audit: pip-audit failed"),
    ],
)
def test_what_the_tool_says_is_told_by_the_exit_code(tmp_path, says, ends, code, told):
    tool = tmp_path / "bin" / "pip-audit"
    tool.parent.mkdir()
    (tmp_path / "says").write_text(says)
    tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat {tmp_path}/says\nexit {ends}\n')
    tool.chmod(0o755)
    environment = {**os.environ, "AUDIT_TOOLS": str(tmp_path)}
    done = subprocess.run([ROOT / "release" / "audit.sh"], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == code
    assert told in done.stdout + done.stderr
    assert "--require-hashes --disable-pip" in (tmp_path / "asked").read_text()
    assert "requirements-runtime.lock" in (tmp_path / "asked").read_text()


def test_a_tool_that_cannot_be_had_ends_with_3(tmp_path):
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\nmkdir -p $3/bin && printf '#!/bin/sh\\nexit 1\\n' > $3/bin/pip && chmod +x $3/bin/pip\n"
    )
    python.chmod(0o755)
    environment = {**os.environ, "AUDIT_TOOLS": str(tmp_path / "tools"), "PYTHON": str(python)}
    done = subprocess.run([ROOT / "release" / "audit.sh"], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 3
    assert "cannot be installed" in done.stderr
    assert not (tmp_path / "tools").exists()
