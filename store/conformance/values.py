"""Values that other stores change, drop or choke on, and values that no store can hold. Holds no test."""

from typing import Any

from store.canonical import MAX_DEPTH, MAX_INT_DIGITS


def nested(levels: int, *, of: type = list) -> Any:
    """A value of so many levels."""
    value: Any = None
    for _ in range(levels - 1):
        value = [value] if of is list else {"a": value}
    return value


DEEPEST = MAX_DEPTH - 5  # levels of a value that stands where a message's part has its data
LARGEST = 10**MAX_INT_DIGITS - 1

KEPT: dict[str, Any] = {
    "arrays in arrays": [[1, [2, [3, []]]], [[]], []],
    "arrays as deep as may be": nested(DEEPEST),
    "objects as deep as may be": nested(DEEPEST, of=dict),
    "null beside absent": {"null": None, "list": [None]},
    "the order of keys": {"b": 1, "a": 2, "": 3, "10": 4, "9": 5, "c": {"z": 1, "y": 2}},
    "keys that databases reserve": {"": 1, "__x__": 2, ".": 3, "..": 4, "a.b": 5, "`": 6, "$": 7, "*": 8, "[0]": 9},
    "keys that pointers escape": {"a/b": 1, "/": 2, "~": 3, "~0": 4, "~1": 5, "-": 6, "0": 7},
    "keys that languages reserve": {"constructor": 1, "__proto__": {"x": 1}, "prototype": 2, "toString": 3},
    "our own names": {"messages": [{"id": 1}], "id": {"id": []}, "$bytes": "AAA=", "$time": "now", "$map": {}},
    "integers": [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**400, LARGEST, -LARGEST],
    "doubles": [0.1, 1.0, 1e16, 1e22, 1e-7, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1 / 3],
    "zeros": [0, 0.0, -0.0, {"a": -0.0}],
    "truth beside numbers": [True, 1, 1.0, False, 0, "1", "true", None],
    "NUL and control characters": ["\0", "a\0b", "\x01\x1f\x7f\x80", {"\0": "\0"}],
    "text of all scripts": [
        "é",
        "e\u0301",
        "日本語",
        "עברית",
        "👩‍👩‍👧",
        "\U0010ffff",
        "\ufeff",
        "\ufffe\uffff",
        "\u2028\u2029",
    ],
    "the ends of Unicode": ["\U0010ffff", "\U00010000", "\ud7ff", "\ue000", "\ufeff", "\ufffe\uffff"],
    "text with escapes": ['"', "\\", "\\u0041", "\\ud83d\\ude00", "\b\f\n\r\t", "</script>"],
    "long text": "a" * 70_000 + "é" * 70_000,
    "empty": [{}, [], "", {"": {"": ""}}],
}

REFUSED: dict[str, Any] = {
    "NaN": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "a high surrogate alone": "a\ud83d",
    "a low surrogate alone": "\ude00",
    "a surrogate in a key": {"\ud800": 1},
    "bytes": b"bytes",
    "a key that is a number": {1: 2},
    "a key that is null": {None: 2},
    "a tuple": (1, 2),
    "a set": {1, 2},
    "an integer that is too long": LARGEST + 1,
    "arrays that are too deep": nested(MAX_DEPTH + 1),
    "objects that are too deep": nested(MAX_DEPTH + 1, of=dict),
    "an object of a class": object(),
}


def typed(value: Any) -> Any:
    """What equals another one only where the types do too: for Python `1 == True == 1.0` and `0.0 == -0.0`."""
    if isinstance(value, dict):
        return [(name, typed(item)) for name, item in value.items()]
    if isinstance(value, list):
        return ["list", *(typed(item) for item in value)]
    return type(value).__name__, repr(value)
