"""Benchmarks are scripts in a folder of their own; this lets tests import what they are made of."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "bench"))
