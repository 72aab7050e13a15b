"""The HTTP port: metrics, health and the API (contract section 5)."""
