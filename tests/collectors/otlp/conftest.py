"""What tests of receivers share: a sink and a meter that record what reaches them."""

from __future__ import annotations

import pytest

from tests.collectors.otlp.recording import RecordingMeter, RecordingSink


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


@pytest.fixture
def meter() -> RecordingMeter:
    return RecordingMeter()
