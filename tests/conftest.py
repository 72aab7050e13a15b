"""Shared fixtures: where the recorded material lies, and programs that some tests need."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("RUBRICD_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded traces, vectors and cases beside the repository; tests that need it are skipped without it."""
    if not SHARED.is_dir():
        pytest.skip(f"no folder {SHARED}: recorded traces and vectors lie beside the repository")
    return SHARED


@pytest.fixture(scope="session")
def required_program():
    """A function that finds a program, or skips the test naming it and its install line (a failure when services are required)."""

    def find(name: str, install: str) -> str:
        path = shutil.which(name)
        if path is None:
            message = f"{name} is not installed: {install}"
            if os.environ.get("RUBRICD_REQUIRE_SERVICES") == "1":
                pytest.fail(message)
            pytest.skip(message)
        return path

    return find


@pytest.fixture(scope="session")
def optional_program():
    """A function that finds a program that no package of the system carries, or skips the test; for stores that are built by hand."""

    def find(name: str, install: str) -> str:
        path = shutil.which(name)
        if path is None:
            pytest.skip(f"{name} is not installed: {install}")
        return path

    return find
