"""The contract of `monitor.store.protocol.Store`, run on every implementation.

A test module of an implementation subclasses `StoreContract` and gives the fixture `opener`: the dotted name of a function that opens the
store at a place (a folder, a database name), and `place`. Child processes open it by the same name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import pytest

from monitor.store.protocol import Store
from tests.contracts.store_browsing_contract import BrowsingContract
from tests.contracts.store_conversations_contract import ConversationsContract
from tests.contracts.store_crash_contract import CrashContract
from tests.contracts.store_erasing_contract import ErasingContract
from tests.contracts.store_evaluations_contract import EvaluationsContract
from tests.contracts.store_figures_contract import FiguresContract
from tests.contracts.store_labels_contract import LabelsContract
from tests.contracts.store_listings_contract import ListingsContract
from tests.contracts.store_regressions_contract import RegressionsContract
from tests.contracts.store_runs_contract import RunsContract
from tests.contracts.store_ties_contract import TiesContract
from tests.contracts.store_traces_contract import TracesContract


class StoreContract(
    TracesContract,
    TiesContract,
    RunsContract,
    EvaluationsContract,
    FiguresContract,
    BrowsingContract,
    ListingsContract,
    ErasingContract,
    RegressionsContract,
    LabelsContract,
    CrashContract,
    ConversationsContract,
):
    """Everything that a store promises."""

    @pytest.fixture
    def opener(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def place(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def open_again(self, opener: str, place: str) -> Iterator[Callable[[], Store]]:
        """Opens the store at the test's place, as often as asked; all are closed after the test."""
        module, _, name = opener.partition(":")
        opened: list[Store] = []

        def open_store() -> Store:
            opened.append(getattr(importlib.import_module(module), name)(place))
            return opened[-1]

        yield open_store
        for store in opened:
            store.close()

    @pytest.fixture
    def store(self, open_again: Callable[[], Store]) -> Store:
        """A store, empty at first."""
        return open_again()
