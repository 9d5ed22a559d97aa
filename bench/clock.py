"""Which time is measured: what passes, or, with TUTTI_BENCH_CLOCK=cpu, what the processor spends on this thread.

The engine runs in one thread and waits for nothing, so on an idle machine both are the same; where the machine has
other work only the second says how fast the engine is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

clock: Callable[[], float] = time.thread_time if os.environ.get("TUTTI_BENCH_CLOCK") == "cpu" else time.perf_counter
