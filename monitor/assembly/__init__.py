"""Spans and log records of a settled trace to invocations. Pure: no I/O, no clock."""

from monitor.assembly.assemble import AssemblyContext, assemble, ties
from monitor.assembly.joining import Ties

__all__ = ["AssemblyContext", "Ties", "assemble", "ties"]
