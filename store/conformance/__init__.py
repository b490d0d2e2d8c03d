"""The shipped suite that any store can be held against, ours or a third party's; see docs/conformance.md.

"Case 47" in a docstring is a number in this project's own list of what sessions have to do.

Needs the extra `conformance` (pytest with pytest-asyncio in its automatic mode, and hypothesis). Nothing of the store
itself imports it.
"""

import pkgutil

import pytest

# Before the modules below are imported, so that a failed assertion shows its values.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)))
