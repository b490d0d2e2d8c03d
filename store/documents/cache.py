"""States that were read or written here. Settled ones never change; a reader compares the chain, so that the state of a
row that was still running when it was kept is never taken for the present one."""

from collections import OrderedDict

from store.layout.chain import Ground


class StateCache:
    """The most recently used states, bounded in bytes of their text (each one is counted whole, although successive
    states share most of their messages)."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._grounds: OrderedDict[tuple[str, str], Ground] = OrderedDict()
        self._heads: OrderedDict[tuple[str, str], str] = OrderedDict()

    def get(self, tenant: str, snapshot_id: str) -> Ground | None:
        """The row's state where it is still here."""
        ground = self._grounds.get((tenant, snapshot_id))
        if ground is not None:
            self._grounds.move_to_end((tenant, snapshot_id))
        return ground

    def put(self, tenant: str, ground: Ground) -> None:
        """Keeps a row's state, and drops what was not used for longest."""
        key = (tenant, ground.snapshot_id)
        former = self._grounds.pop(key, None)  # another one where the row was still running when it was read
        self._bytes += ground.state.size - (former.state.size if former else 0)
        self._grounds[key] = ground
        while self._bytes > self._max_bytes and self._grounds:
            _, dropped = self._grounds.popitem(last=False)
            self._bytes -= dropped.state.size

    def replace_head(self, tenant: str, session_id: str, ground: Ground) -> None:
        """Keeps a session's new head, and lets go of the one before, which nobody is likely to ask for."""
        former = self._heads.pop((tenant, session_id), None)
        if former is not None and former != ground.snapshot_id:
            dropped = self._grounds.pop((tenant, former), None)
            self._bytes -= dropped.state.size if dropped else 0
        self.put(tenant, ground)
        self._heads[(tenant, session_id)] = ground.snapshot_id
        while len(self._heads) > len(self._grounds) + 1000:
            self._heads.popitem(last=False)

    def has_head(self, tenant: str, session_id: str) -> bool:
        """Whether a state of the session is here, which makes it likely that its present head is."""
        head = self._heads.get((tenant, session_id))
        return head is not None and (tenant, head) in self._grounds
