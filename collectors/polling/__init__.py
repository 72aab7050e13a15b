"""What all pollers share: windows, watching of traces, cursors, pace, HTTP, and delivery to the sink. Sources are modules beside it."""
