"""Spans and log records of a settled trace to invocations. Pure: no I/O, no clock."""

from monitor.assembly.assemble import AssemblyContext, assemble

__all__ = ["AssemblyContext", "assemble"]
