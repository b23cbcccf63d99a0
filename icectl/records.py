"""`dataclass` and its companions, as the standard library defines them, made faster.

The standard decorator compiles five methods for each class when its module is imported: with a
hundred classes that took longer than anything else at the start of a command. Here classes
share all their methods but `__init__`, and that one is compiled when the first instance is
made. Only what icectl uses is there. A type checker sees the standard library's own, and a test
holds the two against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
    "KW_ONLY",
    "FrozenInstanceError",
    "asdict",
    "dataclass",
    "field",
    "fields",
    "is_dataclass",
    "replace",
]

if TYPE_CHECKING:
    from dataclasses import (
        KW_ONLY,
        FrozenInstanceError,
        asdict,
        dataclass,
        field,
        fields,
        is_dataclass,
        replace,
    )
else:
    MISSING = object()
    FIELDS = "__record_fields__"

    class KW_ONLY:  # noqa: N801 - as the standard library spells it
        """`_: KW_ONLY`: the fields below are given by name."""

    class FrozenInstanceError(AttributeError):
        """A field of a frozen instance cannot be set."""

    class Field:
        __slots__ = ("default", "default_factory", "kw_only", "name")

        def __init__(self, default: Any, default_factory: Any) -> None:
            self.default = default
            self.default_factory = default_factory

    def field(*, default: Any = MISSING, default_factory: Any = MISSING) -> Field:
        return Field(default, default_factory)

    def dataclass(cls=None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True):
        def decorate(cls: type) -> type:
            return _decorated(cls, frozen, slots, eq)

        return decorate if cls is None else decorate(cls)

    def fields(record: Any) -> tuple[Field, ...]:
        return tuple(getattr(record, FIELDS).values())

    def is_dataclass(value: object) -> bool:
        return hasattr(value, FIELDS)

    def replace(record: Any, /, **changes: Any) -> Any:
        for name in getattr(record, FIELDS):
            if name not in changes:
                changes[name] = getattr(record, name)
        return type(record)(**changes)

    def asdict(record: Any) -> Any:
        if is_dataclass(record):
            return {name: asdict(getattr(record, name)) for name in getattr(record, FIELDS)}
        if isinstance(record, (list, tuple)):
            return type(record)(asdict(item) for item in record)
        if isinstance(record, dict):
            return {asdict(key): asdict(value) for key, value in record.items()}
        return record

    def _decorated(cls: type, frozen: bool, slots: bool, eq: bool) -> type:
        own = _own_fields(cls)
        inherited = getattr(cls, FIELDS, {})
        every = {**inherited, **own}
        added = {
            "__init__": _first_init,
            "__repr__": _repr,
            "__match_args__": tuple(name for name in every if not every[name].kw_only),
        }
        if eq:
            added |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
        if frozen:
            added |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if frozen and slots:
            added |= {"__getstate__": _getstate, "__setstate__": _setstate}
        body = {
            name: value
            for name, value in vars(cls).items()
            if name not in own and name not in ("__dict__", "__weakref__")
        }
        members = {**added, **body, FIELDS: every}
        if slots:
            members["__slots__"] = tuple(name for name in own if name not in inherited)
            made = type(cls)(cls.__name__, cls.__bases__, members)
            made.__qualname__ = cls.__qualname__
            return made
        for name, each in own.items():
            if isinstance(vars(cls).get(name), Field):
                delattr(cls, name)
            if each.default is not MISSING:
                members[name] = each.default
        for name, value in members.items():
            if vars(cls).get(name, MISSING) is not value:
                setattr(cls, name, value)
        return cls

    def _own_fields(cls: type) -> dict[str, Field]:
        """Annotations are strings here: every module of the package postpones them."""
        found = {}
        kw_only = False
        for name, annotation in cls.__annotations__.items():
            if annotation == "KW_ONLY":
                kw_only = True
            elif not annotation.startswith("ClassVar"):
                each = vars(cls).get(name, MISSING)
                if not isinstance(each, Field):
                    each = Field(each, MISSING)
                each.name, each.kw_only = name, kw_only
                found[name] = each
        return found

    def _first_init(self: Any, *arguments: Any, **named: Any) -> None:
        """Stands in the place of `__init__` until the first instance is made."""
        owner = next(cls for cls in type(self).__mro__ if vars(cls).get("__init__") is _first_init)
        owner.__init__ = _compiled_init(owner)
        owner.__init__(self, *arguments, **named)

    def _compiled_init(cls: type) -> Any:
        namespace: dict[str, Any] = {"_MISSING": MISSING}
        positional, by_name, body = [], [], []
        for name, each in getattr(cls, FIELDS).items():
            parameter, value = name, name
            if each.default_factory is not MISSING:
                namespace[f"_make_{name}"] = each.default_factory
                parameter = f"{name}=_MISSING"
                value = f"_make_{name}() if {name} is _MISSING else {name}"
            elif each.default is not MISSING:
                namespace[f"_default_{name}"] = each.default
                parameter = f"{name}=_default_{name}"
            (by_name if each.kw_only else positional).append(parameter)
            member = getattr(cls, name, None)
            if hasattr(member, "__set__"):
                namespace[f"_set_{name}"] = member.__set__
                body.append(f"_set_{name}(self, {value})")
            else:
                body.append(f"self.__dict__[{name!r}] = {value}")
        if hasattr(cls, "__post_init__"):
            body.append("self.__post_init__()")
        parameters = ", ".join(["self", *positional, *(["*", *by_name] if by_name else [])])
        lines = "".join(f"\n    {line}" for line in body or ["pass"])
        exec(f"def __init__({parameters}):{lines}", namespace)
        return namespace["__init__"]

    def _values(record: Any) -> tuple[Any, ...]:
        return tuple([getattr(record, name) for name in getattr(record, FIELDS)])

    def _eq(self: Any, other: object) -> Any:
        if type(self) is not type(other):
            return NotImplemented
        return _values(self) == _values(other)

    def _hash(self: Any) -> int:
        return hash(_values(self))

    def _repr(self: Any) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return f"{type(self).__qualname__}({shown})"

    def _refuse_to_set(self: Any, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_to_delete(self: Any, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _getstate(self: Any) -> list[Any]:
        return list(_values(self))

    def _setstate(self: Any, state: list[Any]) -> None:
        for name, value in zip(getattr(self, FIELDS), state, strict=True):
            object.__setattr__(self, name, value)
