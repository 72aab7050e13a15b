"""rubricd: spans in, rubric pass rates out. ARCHITECTURE.md in the repository shows the way of a span."""
