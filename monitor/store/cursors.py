"""How far polling collectors have read, in the store's state."""

from __future__ import annotations

from typing import Any

from monitor.store.protocol import Store

_KEY = "cursor:{}"


class StoredCursors:
    """A `collectors.polling.cursors.CursorStore` over the store. `save` returns when the cursor is committed; raises StoreUnwritable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load(self, collector: str) -> Any:
        """The value last saved, or None."""
        return self._store.state(_KEY.format(collector))

    def save(self, collector: str, cursor: Any) -> None:
        """Keep the value in place of the last."""
        self._store.set_state(_KEY.format(collector), cursor)
