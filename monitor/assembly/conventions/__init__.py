"""The dialects of agent telemetry: one module each, listed in `table.py`."""
