"""Settings: how they are declared, checked, documented, compared and saved throughout the library.

There are two ways to use this module. A plain group of settings is a `Settings`:

>>> class Schedule(Settings):
...     "How long to train."
...     epochs: int = setting("How many epochs.", default=100, ge=1)
>>> Schedule(epochs=3)
Schedule(epochs=3)
>>> Schedule(epochs=0)
Traceback (most recent call last):
    ...
purigraph.errors.InputError: Schedule: epochs=0 is not valid: input should be greater than or equal to 1.

A component (an attack, a classifier, a purifier) is `Configured`: its fields, declared in the same way, are the
arguments of its constructor and read-only attributes of the object.

>>> class Counter(Configured):
...     "Counts."
...     step: int = setting("By how much.", default=1, ge=1)
>>> Counter(step=2).step, Counter(step=2).settings
(2, Counter(step=2))

In both cases, a default is stated once, bounds are always checked, and the meaning of each setting is appended to the
docstring, printed by the command line and written to the API page.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from typing_extensions import dataclass_transform

from purigraph.errors import InputError, PurigraphError

# PyTorch's integers end there.
_TOO_LARGE = 2**63

S = TypeVar("S", bound="Settings")
C = TypeVar("C", bound="Configured")


def setting(
    doc: str,
    *,
    default: Any = ...,
    kw_only: bool = True,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    multiple_of: int | None = None,
) -> Any:
    """Declare a setting.

    Args:
        doc: The meaning of the setting, as a sentence.
        default: The default value. Without one, the setting is required.
        kw_only: Whether it can only be passed by keyword, not by position.
        gt: The exclusive lower bound.
        ge: The inclusive lower bound.
        lt: The exclusive upper bound.
        le: The inclusive upper bound.
        multiple_of: The number that an integer must be a multiple of.
    """
    bounds = {"gt": gt, "ge": ge, "lt": lt, "le": le, "multiple_of": multiple_of}
    given: dict[str, Any] = {name: bound for name, bound in bounds.items() if bound is not None}
    return Field(default, description=doc, kw_only=kw_only, **given)


class Settings(BaseModel):
    """Base class of all groups of settings: immutable, with typed, bounded and documented fields; no unknown names.

    Raises:
        InputError: If a setting is unknown, missing, or has a value that is not allowed.
    """

    # Strict, as 3.7, "5" or True are mistakes, not numbers of epochs.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    def __init__(self, /, **values: Any) -> None:
        for name, value in values.items():
            if isinstance(value, int) and not -_TOO_LARGE < value < _TOO_LARGE:
                raise InputError(f"{type(self).__name__}: {name} is not valid: a whole number must be below 2^63.")
        try:
            super().__init__(**{name: _plain(value) for name, value in values.items()})
        except ValidationError as error:
            raise _explained(type(self), error) from None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.__doc__ = _with_arguments(inspect.cleandoc(cls.__doc__ or ""), cls)

    def replace(self: S, **changes: Any) -> S:
        """Return a copy with some settings changed; all are checked again."""
        return type(self)(**{**self.values(), **changes})

    def values(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def to_json(self) -> dict[str, Any]:
        """Return the settings by name as JSON values."""
        return self.model_dump(mode="json")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.values().items())})"

    __str__ = __repr__


@dataclass_transform(kw_only_default=True, field_specifiers=(setting,))
class Configured:
    """Base class of components whose constructor takes exactly the settings that the class declares.

    A subclass inherits the settings of its base classes and may redeclare them with other defaults. Initialisation
    belongs in `_build`, which is called after all settings are set.
    """

    #: The class of `settings`, created from the declared fields.
    settings_class: ClassVar[type[Settings]] = Settings
    #: Settings of a small and fast object, for trials and the contract tests.
    trial_settings: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        fields = {name: value for name, value in vars(cls).items() if isinstance(value, FieldInfo)}
        bases = tuple(dict.fromkeys(b.settings_class for b in cls.__mro__[1:] if issubclass(b, Configured)))
        hints = _hints(cls, fields)
        declared: dict[str, Any] = {name: (hints[name], field) for name, field in fields.items()}
        cls.settings_class = create_model(
            cls.__name__,
            __base__=_most_derived(bases),
            __module__=cls.__module__,
            __doc__=None,
            __qualname__=f"{cls.__qualname__}.settings_class",  # for pickle
            **declared,
        )
        for name, field in fields.items():
            setattr(cls, name, property(attrgetter(f"settings.{name}"), doc=field.description))
        cls.__signature__ = _signature(cls.settings_class)  # type: ignore[attr-defined]
        if cls.__doc__:
            cls.__doc__ = _with_arguments(inspect.cleandoc(cls.__doc__), cls.settings_class)

    def __init__(self, *args: Any, **values: Any) -> None:
        kind = type(self)
        positional = [name for name, field in kind.settings_class.model_fields.items() if field.kw_only is False]
        if len(args) > len(positional):
            raise InputError(
                f"{kind.__name__} takes {len(positional)} positional arguments, not {len(args)}: name the settings, "
                f"{kind.__name__}({', '.join(f'{name}=...' for name in kind.settings_class.model_fields)})."
            )
        given = dict(zip(positional, args, strict=False))
        twice = sorted(given.keys() & values.keys())
        if twice:
            raise InputError(f"{kind.__name__}: {', '.join(twice)} is given twice, by position and by name.")
        settings = kind.settings_class(**given, **values)
        super().__init__()  # that of PyTorch's Module, if the component is one
        self._settings = settings
        self._build()

    def _build(self) -> None:
        """Initialise the object; called once, after all settings are set."""

    @property
    def settings(self) -> Any:
        """Return the settings as one immutable value, an instance of `settings_class`."""
        return self._settings

    def replace(self: C, **changes: Any) -> C:
        """Return a new object of the same class with some settings changed."""
        return type(self)(**{**self.settings.values(), **changes})


def describe(kind: type[Settings], *, leave_out: Sequence[str] = ()) -> Iterator[tuple[str, str, str, str]]:
    """Yield the name, type, default (empty if there is none) and meaning of every setting."""
    for name, field in kind.model_fields.items():
        if name not in leave_out:
            default = "" if field.is_required() else repr(field.default)
            yield name, _type_name(field.annotation), default, field.description or ""


def what_was_meant(name: str, known: Sequence[str]) -> str:
    """Return the end of a sentence about an unknown name: the name that was probably meant, and all known names."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}? It has: {', '.join(known)}." if close else f"it has: {', '.join(known)}."


def _explained(kind: type[Settings], error: ValidationError) -> PurigraphError:
    sentences = []
    for problem in error.errors():
        name = ".".join(str(part) for part in problem["loc"]) or "value"
        cause = problem.get("ctx", {}).get("error")
        if problem["type"] == "extra_forbidden":
            sentences.append(
                f"{kind.__name__} has no setting {name!r}: {what_was_meant(name, list(kind.model_fields))}"
            )
        elif isinstance(cause, PurigraphError):
            return cause
        elif problem["type"] == "missing":
            sentences.append(f"{kind.__name__}: {name} is missing.")
        elif cause is not None and problem["loc"] == ():
            sentences.append(f"{kind.__name__}: {cause}")
        else:
            reason = str(cause) if cause is not None else f"{problem['msg'][:1].lower()}{problem['msg'][1:]}"
            sentences.append(f"{kind.__name__}: {name}={problem['input']!r} is not valid: {reason.rstrip('.')}.")
    return InputError(" ".join(sentences))


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number."""
    return value.item() if isinstance(value, np.generic) else value


def _hints(cls: type, fields: Mapping[str, FieldInfo]) -> dict[str, Any]:
    """Resolve only the annotations of these fields: others may use imports that exist only for type checkers."""
    annotations = {name: hint for name, hint in inspect.get_annotations(cls).items() if name in fields}
    missing = fields.keys() - annotations.keys()
    if missing:
        raise TypeError(f"{cls.__name__}: the settings {sorted(missing)} have no type annotation.")
    return get_type_hints(
        type(cls.__name__, (), {"__annotations__": annotations, "__module__": cls.__module__}), include_extras=True
    )


def _most_derived(bases: Sequence[type[Settings]]) -> type[Settings]:
    """Return the settings class of the nearest base, which includes those of its own bases."""
    return bases[0] if bases else Settings


def _signature(kind: type[Settings]) -> inspect.Signature:
    fields = sorted(kind.model_fields.items(), key=lambda item: item[1].kw_only is not False)
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD if field.kw_only is False else inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.is_required() else field.default,
                annotation=field.annotation,
            )
            for name, field in fields
        ]
    )


def _with_arguments(doc: str, kind: type[Settings]) -> str:
    """Append the settings to a docstring, replacing those of a base class."""
    doc = doc.partition("\n\nArgs:\n")[0]
    lines = [
        f"    {name} ({type_name}): {meaning}{f' Default: {default}.' if default else ''}"
        for name, type_name, default, meaning in describe(kind)
    ]
    return f"{doc}\n\nArgs:\n" + "\n".join(lines) if lines else doc


def _type_name(annotation: Any) -> str:
    """Return a type as it would be written in code."""
    if get_origin(annotation) is Annotated:
        return _type_name(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return " | ".join(repr(value) for value in get_args(annotation))
    if annotation is type(None):
        return "None"
    if get_origin(annotation) is not None and type(None) in get_args(annotation):
        return " | ".join(_type_name(part) for part in get_args(annotation))
    return getattr(annotation, "__name__", str(annotation))
