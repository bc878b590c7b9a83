"""What the configurations of all cells have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from purigraph.errors import InputError
from purigraph.paper.experiments import Form
from purigraph.paper.models import Scene
from purigraph.paper.profiles import Profile
from purigraph.paper.specs import AnchorSpec, ClassifierSpec, DefenceSpec, PurifierSpec, Spec
from purigraph.runs import Context

C = TypeVar("C", bound="CellConfig")

_MODELS = (ClassifierSpec, PurifierSpec, AnchorSpec, DefenceSpec)


class CellConfig(Spec):
    """The configuration of a cell.

    Attributes:
        dataset: The dataset.
        seed: The seed of the split, of the trainings and of the attacks.
        split: The hash of the split.
        form: The form of the attacks.
        profile: The profile.
        protocols: The protocol versions of the components.
    """

    dataset: str
    seed: int = 0
    split: str = ""
    form: Form | None = None
    profile: str = "paper"
    protocols: dict[str, int] = Field(default_factory=dict)

    def resolved(self: C, profile: Profile) -> C:
        """Return it with everything that follows from the dataset, the form and the profile; names are checked.

        By default that is all of its models; a cell with more to resolve overrides this.
        """
        parts = {name: getattr(self, name) for name in type(self).model_fields}
        models = {name: part for name, part in parts.items() if isinstance(part, _MODELS)}
        return self.model_copy(update={name: one.resolved(profile, self.dataset) for name, one in models.items()})

    def components(self) -> Iterator[str]:
        """Yield the names of the components whose protocol versions matter."""
        yield "evaluation"
        yield from super().components()

    def scene(self, context: Context) -> Scene:
        """Return the split that the cell works on."""
        return Scene(self.dataset, self.seed, self.split, context)

    @classmethod
    def read(cls: type[C], values: Mapping[str, Any], where: str) -> C:
        """Check a configuration; the error names the place and what is wrong."""
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "the configuration"
            raise InputError(f"{where}: {place} is not valid: {first['msg']}.") from None
