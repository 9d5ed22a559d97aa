"""`tutti migrate kueue` as it is called: files in, files or a stream out, a report beside."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from tests.cli.migrate.golden import FOLDER
from tutti.cli.main import cli

CLEAN = """apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: train, namespace: vision}
spec: {clusterQueue: vision}
"""
LOSSY = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: MultiKueueConfig\nmetadata: {name: others}\n"


def call(*arguments: str, stdin: str = ""):
    return CliRunner().invoke(cli, ["migrate", "kueue", *arguments], input=stdin)


@pytest.mark.parametrize(
    ("text", "arguments", "status"),
    [(CLEAN, [], 0), (CLEAN, ["--strict"], 0), (LOSSY, [], 0), (LOSSY, ["--strict"], 1)],
)
def test_a_loss_fails_only_where_strictness_is_asked_for(text, arguments, status):
    assert call("-", *arguments, stdin=text).exit_code == status


def test_manifests_go_to_stdout_and_the_report_to_stderr():
    done = call("-", stdin=CLEAN)

    assert done.stdout == CLEAN.replace("kueue.x-k8s.io/v1beta1", "scheduling.tutti.dev/v1alpha1")
    assert done.stderr == "0 lost, 0 changed, 0 invalid, 0 note\n"


def test_several_files_become_one_stream(tmp_path):
    (tmp_path / "a.yaml").write_text(CLEAN.rstrip("\n"))
    (tmp_path / "b.yaml").write_text(CLEAN.replace("train", "serve"))

    done = call(str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"))

    assert [one["metadata"]["name"] for one in yaml.safe_load_all(done.stdout)] == ["train", "serve"]


def test_each_file_is_written_where_it_is_asked_for(tmp_path):
    done = call(str(FOLDER / "tas.yaml"), str(FOLDER / "jobs.yaml"), "-d", str(tmp_path / "out"))

    assert (done.exit_code, done.stdout) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["jobs.yaml", "tas.yaml"]
    assert call(str(tmp_path / "out" / "tas.yaml")).stdout == (tmp_path / "out" / "tas.yaml").read_text()


def test_files_of_one_name_do_not_overwrite_each_other(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "q.yaml").write_text(CLEAN)

    done = call(str(tmp_path / "a" / "q.yaml"), str(tmp_path / "b" / "q.yaml"), "-d", str(tmp_path / "out"))

    assert done.exit_code == 2
    assert "more than one file is called q.yaml" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_report_for_machines_names_file_line_document_and_field():
    done = call("-", "-o", "json", stdin=CLEAN + "---\n" + LOSSY)

    said = json.loads(done.stderr)
    assert said["losses"] == 1
    [entry] = said["entries"]
    assert {key: entry[key] for key in ("file", "line", "document", "kind", "name", "level", "path")} == {
        "file": "-",
        "line": 6,
        "document": 2,
        "kind": "MultiKueueConfig",
        "name": "others",
        "level": "lost",
        "path": "",
    }


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "q.yaml").write_bytes(b"\xff\xfe\x00")

    done = call(str(tmp_path / "q.yaml"))

    assert done.exit_code == 1
    assert "q.yaml cannot be read" in done.stderr
