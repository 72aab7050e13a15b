"""Spans and log records of a settled trace to invocations. Pure: no I/O, no clock."""

from monitor.assembly.assemble import AssemblyContext, Reading, SetUp, Ties, agent_key, assemble, reading, ties

__all__ = ["AssemblyContext", "Reading", "SetUp", "Ties", "agent_key", "assemble", "reading", "ties"]
