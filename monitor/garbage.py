"""Python's cyclic collector, set for a long-lived process that makes many short-lived objects.

A full collection looks at every object that is there, modules and all, with the interpreter locked: acknowledgements wait for it. What the start has made
stays, so it is taken out of sight; and settling a trace makes thousands of objects of which nearly all go by themselves, so collections are rarer. Measured on
intake until stored: 7 % less CPU, the same memory.
"""

from __future__ import annotations

import gc

THRESHOLDS = (10_000, 20, 20)
"""New objects before a young collection, young ones before a middle one, middle ones before a full one (Python's own: 700, 10, 10)."""


def after_start() -> None:
    """Call once the process has started: what is there now is not looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
