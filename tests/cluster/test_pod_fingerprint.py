"""Fingerprints of pods are those that agents write."""

from __future__ import annotations

import pytest

from tutti.cluster.pod_fingerprint import fingerprint, is_fingerprint, xxhash64

# xxHash specification 0.1.1 (the empty input), and podfingerprint's testdata compat-tiny-3pods-1ns, compat-small-10pods-3ns.
HASHES = [(b"", 0, 0xEF46DB3751D8E999), (b"abc", 0, 0x44BC2CF5AD770999)]
TINY = [("production", name) for name in ("jaeger-dpgjk", "nginx-rt684", "envoy-g9m22")]
SMALL = [
    ("analytics", "controller-69dkj"),
    ("kube-public", "subscriber-tq6v7"),
    ("kube-public", "transformer-hfbng"),
    ("kube-public", "validator-c6pn5"),
    ("kube-system", "proxy-wszrd"),
    ("middleware", "processor-jkrl4"),
    ("network", "gateway-vsll5"),
    ("network", "importer-kzdfr"),
    ("network", "importer-q5vt9"),
    ("staging", "prometheus-bwgbn"),
]


@pytest.mark.parametrize(("data", "seed", "expected"), HASHES)
def test_hashes_are_those_of_the_specification(data: bytes, seed: int, expected: int):
    assert xxhash64(data, seed) == expected


@pytest.mark.parametrize(("pods", "expected"), [(TINY, "607b76a0e9d3aeb4"), (SMALL, "567144e4a561bb5a")])
def test_fingerprints_are_those_of_the_library_in_whatever_order(pods, expected):
    assert fingerprint(pods) == fingerprint(reversed(pods)) == f"pfp0v001{expected}"
    assert is_fingerprint(fingerprint(pods))
    assert fingerprint(pods[1:]) != fingerprint(pods)


def test_other_versions_are_not_taken_for_one():
    assert not is_fingerprint("pfp0v002607b76a0e9d3aeb4")
    assert not is_fingerprint("")
