"""Names of the cluster's objects, completed."""

from __future__ import annotations

import pytest

from tutti.cli.completion import completed


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["drain-check", "h1"], ["h100-1", "h100-2"]),
        (["queue", ""], ["serving", "speech", "vision"]),
        (["explain", "workload", "vision/t"], ["vision/train-1", "vision/train-2"]),
    ],
)
def test_names_are_completed_from_the_cluster(kubeconfig, monkeypatch, words: list[str], found: list[str]):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    assert completed(words).splitlines() == [*found, ":4"]


def test_a_kubeconfig_named_before_goes_before_the_usual_one(kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere")

    assert completed(["queue", "--kubeconfig", str(kubeconfig), "vi"]).splitlines() == ["vision", ":4"]


def test_without_a_cluster_nothing_is_completed(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))

    assert completed(["drain-check", ""]).splitlines() == [":4"]
