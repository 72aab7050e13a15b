"""The wire: everything that knows OTLP, HTTP, gRPC or a vendor's trace API. Imports nothing of `monitor`."""
