"""A million small points on two workers: time, files, and the memory of all processes together.

python benchmarks/full_sweeps.py
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import psutil

import attnlab as al


def together(a, b):
    """A function of arrays."""
    return {"sum": a + b, "product": a * b}


def single(a, b):
    """A function of one point."""
    return {"sum": a + b, "product": a * b}


def watch(peak: dict[str, float], stop: threading.Event) -> None:
    own = psutil.Process()
    while not stop.wait(0.2):
        sizes = []
        for process in (own, *own.children(recursive=True)):
            try:
                sizes.append(process.memory_info().rss)
            except psutil.NoSuchProcess:
                continue
        peak["own"] = max(peak["own"], sizes[0])
        peak["all"] = max(peak["all"], sum(sizes))


def main() -> None:
    grid = {"a": {"linspace": [0, 1, 1000]}, "b": {"linspace": [0, 1, 1000]}}
    for name, batching in (("together", "arrays"), ("single", "each")):
        with tempfile.TemporaryDirectory() as place:
            peak, stop = {"own": 0.0, "all": 0.0}, threading.Event()
            thread = threading.Thread(target=watch, args=(peak, stop))
            thread.start()
            start = time.perf_counter()
            dataset = al.sweep(
                f"full_sweeps:{name}",
                grid=grid,
                batching=batching,
                workers=2,
                paths=[str(Path(__file__).parent)],
                out=place,
            )
            seconds = time.perf_counter() - start
            stop.set()
            thread.join()
            files = list(Path(place).rglob("*"))
            size = sum(file.stat().st_size for file in files)
        assert int((dataset.status == 0).sum()) == 1_000_000
        print(
            f"{batching}: {seconds:.0f} s, peak {peak['own'] / 1e6:.0f} MB of the sweep's process, "
            f"{peak['all'] / 1e6:.0f} MB with its workers; {len(files)} files, {size / 1e6:.0f} MB"
        )


if __name__ == "__main__":
    main()
