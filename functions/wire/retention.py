"""Bodies and queries about retention."""

from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, Field, model_validator

from functions.wire.validation import WireModel, problem

HIGHEST_LIMIT: Final = 100_000
MOST_SWEPT: Final = 10_000


def _one(text: Any) -> Any:
    return {"1": True, "0": False}.get(text, text) if isinstance(text, str) else text


class RetentionRequest(WireModel):
    """Changes the tenant's rules; what is absent stays."""

    max_idle_days: int | None = Field(None, ge=0, le=HIGHEST_LIMIT, description="Days without a change; 0 is no limit.")
    max_count_per_user: int | None = Field(None, ge=0, le=HIGHEST_LIMIT, description="Sessions; 0 is no limit.")

    @model_validator(mode="after")
    def _some_change(self) -> Self:
        if self.max_idle_days is None and self.max_count_per_user is None:
            raise problem("must change maxIdleDays or maxCountPerUser")
        return self


class SweepRequest(WireModel):
    """One bounded sweep."""

    dry_run: bool = Field(False, description="Only say what would go.")
    limit: int = Field(500, ge=1, le=MOST_SWEPT, description="Documents to delete at most, about.")


class SweepQuery(WireModel):
    """When to sweep."""

    now: Annotated[bool, BeforeValidator(_one)] = Field(False, description="1: at once, not within a minute.")
