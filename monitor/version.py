"""The version of rubricd, read by the build and shown in `rubricd_build_info`."""

__version__ = "0.1.0"
