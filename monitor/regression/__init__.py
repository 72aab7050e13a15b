"""Regressions: evidence in the log of first verdicts, one series for each monitor, rubric, agent and environment."""
