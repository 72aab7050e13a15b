"""Durable intake: journal, index of open traces, settling and late data. Knows bytes and times, not meaning."""
