"""Which invocations are judged, and with which inclusion probability (contract section 2). Pure: no clock, no chance, no I/O."""

from monitor.sampling.allocation import PastVerdicts
from monitor.sampling.budget import recompute_over_budget
from monitor.sampling.caps import Allowance, split_cap
from monitor.sampling.draw import draw
from monitor.sampling.expectation import expected_minimum, inclusion_probability
from monitor.sampling.number import sampling_number
from monitor.sampling.rule import SamplingRule, sampling_rule
from monitor.sampling.selection import Selection, looks_at_tools

__all__ = [
    "Allowance",
    "PastVerdicts",
    "SamplingRule",
    "Selection",
    "draw",
    "expected_minimum",
    "inclusion_probability",
    "looks_at_tools",
    "recompute_over_budget",
    "sampling_number",
    "sampling_rule",
    "split_cap",
]
