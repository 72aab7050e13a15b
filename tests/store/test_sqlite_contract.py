"""The SQLite store keeps the contract of stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.store_contract import StoreContract


class TestSqliteStore(StoreContract):
    """The contract, in a folder of the test."""

    @pytest.fixture
    def opener(self) -> str:
        return "tests.store.opening:open_sqlite"

    @pytest.fixture
    def place(self, tmp_path: Path) -> str:
        return str(tmp_path / "data")
