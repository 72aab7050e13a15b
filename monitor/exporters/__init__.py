"""What is sent out and shown: the page for Prometheus, and verdicts over OTLP."""
