"""The pages on loopback without authorisation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.pages.served import Pages, pages


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Pages]:
    async with pages(tmp_path) as found:
        yield found
