"""Settings, once: how everything that can be adjusted declares, checks, documents, compares and saves its settings.

There are two users of it. A plain group of settings is a `Settings`:

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

In both, a default is stated once, bounds hold however the object is made, and the meaning of each setting is appended
to the docstring, printed by the command line and written to the API page.
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
        doc: What it means, as a sentence.
        default: Its default value. Without one, the setting must be given.
        kw_only: False lets it be given by position as well.
        gt: A bound that the value must exceed.
        ge: The smallest value.
        lt: A bound that the value must stay below.
        le: The largest value.
        multiple_of: What an integer must be a multiple of.
    """
    bounds = {"gt": gt, "ge": ge, "lt": lt, "le": le, "multiple_of": multiple_of}
    given: dict[str, Any] = {name: bound for name, bound in bounds.items() if bound is not None}
    return Field(default, description=doc, kw_only=kw_only, **given)


class Settings(BaseModel):
    """Base of all groups of settings: immutable, every field typed, bounded and documented, unknown names refused.

    Raises:
        InputError: If a setting is unknown, missing, or has a value that is not allowed.
    """

    # Strict: 3.7 epochs, "5" or True are mistakes, not numbers of epochs.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**{name: _plain(value) for name, value in values.items()})
        except ValidationError as error:
            raise _explained(type(self), error) from None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.__doc__ = _with_arguments(inspect.cleandoc(cls.__doc__ or ""), cls)

    def replace(self: S, **changes: Any) -> S:
        """Return the same settings with some of them changed, checked again."""
        return type(self)(**{**self.values(), **changes})

    def values(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def to_json(self) -> dict[str, Any]:
        """Return the settings by name, as plain JSON values."""
        return self.model_dump(mode="json")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.values().items())})"

    __str__ = __repr__


@dataclass_transform(kw_only_default=True, field_specifiers=(setting,))
class Configured:
    """Base of components whose constructor takes exactly the settings that the class declares.

    A subclass inherits the settings of its bases and may declare them again with other defaults. Work that has to be
    done when an object is made belongs in `_build`, which finds all settings in place.
    """

    #: The class of `settings`, made from the declared fields.
    settings_class: ClassVar[type[Settings]] = Settings
    #: Settings that make a small object, which works but in a moment: for trials and for the contract tests.
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
            __qualname__=f"{cls.__qualname__}.settings_class",  # so that pickle finds it
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
                f"{kind.__name__} takes {len(positional)} positional arguments, not {len(args)}: name its settings, "
                f"{kind.__name__}({', '.join(f'{name}=...' for name in kind.settings_class.model_fields)})."
            )
        given = dict(zip(positional, args, strict=False))
        twice = sorted(given.keys() & values.keys())
        if twice:
            raise InputError(f"{kind.__name__}: {', '.join(twice)} is given twice, by position and by name.")
        settings = kind.settings_class(**given, **values)
        super().__init__()  # of PyTorch's Module, where a component is one
        self._settings = settings
        self._build()

    def _build(self) -> None:
        """Make what the object consists of; called once, with all settings in place."""

    @property
    def settings(self) -> Any:
        """The settings, as one immutable value: an instance of `settings_class`."""
        return self._settings

    def replace(self: C, **changes: Any) -> C:
        """Return a new object of this class with some settings changed."""
        return type(self)(**{**self.settings.values(), **changes})


def describe(kind: type[Settings], *, leave_out: Sequence[str] = ()) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, default (empty if there is none) and meaning of every setting."""
    for name, field in kind.model_fields.items():
        if name not in leave_out:
            default = "" if field.is_required() else repr(field.default)
            yield name, _type_name(field.annotation), default, field.description or ""


def what_was_meant(name: str, known: Sequence[str]) -> str:
    """Return the end of a sentence about an unknown name: the one that was probably meant, or all that there are."""
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
    """NumPy's numbers are numbers."""
    return value.item() if isinstance(value, np.generic) else value


def _hints(cls: type, fields: Mapping[str, FieldInfo]) -> dict[str, Any]:
    """Resolve the annotations of these fields alone: others may name what is imported for type checkers only."""
    annotations = {name: hint for name, hint in inspect.get_annotations(cls).items() if name in fields}
    missing = fields.keys() - annotations.keys()
    if missing:
        raise TypeError(f"{cls.__name__}: the settings {sorted(missing)} have no type annotation.")
    return get_type_hints(
        type(cls.__name__, (), {"__annotations__": annotations, "__module__": cls.__module__}), include_extras=True
    )


def _most_derived(bases: Sequence[type[Settings]]) -> type[Settings]:
    """The settings of the nearest base: they hold those of its bases already."""
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
    """Append the settings to a docstring, in place of those that a base's docstring had."""
    doc = doc.partition("\n\nArgs:\n")[0]
    lines = [
        f"    {name} ({type_name}): {meaning}{f' Default: {default}.' if default else ''}"
        for name, type_name, default, meaning in describe(kind)
    ]
    return f"{doc}\n\nArgs:\n" + "\n".join(lines) if lines else doc


def _type_name(annotation: Any) -> str:
    """A type as a person would write it."""
    if get_origin(annotation) is Annotated:
        return _type_name(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return " | ".join(repr(value) for value in get_args(annotation))
    if annotation is type(None):
        return "None"
    if get_origin(annotation) is not None and type(None) in get_args(annotation):
        return " | ".join(_type_name(part) for part in get_args(annotation))
    return getattr(annotation, "__name__", str(annotation))
