"""How far two JSON values are apart, told before they are compared in earnest: that takes a tenth of a millisecond for
each difference, and a turn whose settle takes longer than its lease lives is lost."""

from store.canonical import Json

MOST_DIFFERENCES = 5_000


def are_far_apart(old: Json, new: Json) -> bool:
    """Whether they differ in more than MOST_DIFFERENCES places, lists being compared place by place. Linear."""
    found, pairs = 0, [(old, new)]
    while pairs and found <= MOST_DIFFERENCES:
        one, other = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            names = one.keys() & other.keys()
            found += len(one) + len(other) - 2 * len(names)
            pairs += [(one[name], other[name]) for name in names if one[name] != other[name]]
        elif isinstance(one, list) and isinstance(other, list):
            found += abs(len(one) - len(other))
            pairs += [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
        else:
            found += 1
    return found > MOST_DIFFERENCES
