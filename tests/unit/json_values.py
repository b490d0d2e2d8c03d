"""Strategies for what a state may hold. Holds no test."""

from typing import Any

from hypothesis import strategies as st

_ODD_NAMES = (
    "",
    "a",
    "b",
    "messages",
    "custom",
    "id",
    "~",
    "~0",
    "~1",
    "a/b",
    "/",
    "0",
    "-",
    "__x__",
    "é",
    "\0",
    "__proto__",
)
_ODD_SCALARS: tuple[Any, ...] = (
    0,
    1,
    -1,
    10**20,
    -(2**63),
    0.0,
    -0.0,
    1.0,
    1e16,
    5e-324,
    True,
    False,
    None,
    "",
    "\u2028",
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
names = st.sampled_from(_ODD_NAMES) | texts
scalars = st.sampled_from(_ODD_SCALARS) | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=10
)
messages = st.fixed_dictionaries({"id": st.sampled_from(["m1", "m2", "m3", "m4"]), "content": values}) | values
states = st.dictionaries(names, values, max_size=4) | st.builds(
    lambda listed, others: {"messages": listed, **others},
    st.lists(messages, max_size=6),
    st.dictionaries(names, values, max_size=3),
)
