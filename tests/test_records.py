"""Our `dataclass` does what the standard library's does, for all that the package uses of it."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import pkgutil
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import icectl
from icectl import records

Decorator = Callable[..., Any]


def make(module: Any) -> dict[str, type]:
    """The same classes, by one implementation or the other."""
    dataclass, field = module.dataclass, module.field

    @dataclass(frozen=True, slots=True)
    class Point:
        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        names: list[str] = field(default_factory=list)

        @property
        def total(self) -> int:
            return self.x + self.y

    @dataclass(frozen=True, slots=True)
    class Child(Point):
        z: int = 3

    @dataclass(frozen=True, slots=True, eq=False)
    class Identity:
        x: int

    @dataclass(slots=True)
    class Counter:
        x: int = 0
        seen: set[int] = field(default_factory=set)

    @dataclass
    class Open:
        x: int
        y: dict[str, int] = field(default_factory=dict)
        z: int = 5

        def __post_init__(self) -> None:
            self.z += 1

    @dataclass(frozen=True)
    class FrozenOpen:
        x: int
        y: int = 1

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    class Plain(Point):
        def __init__(self) -> None:
            super().__init__(7)

    return {name: value for name, value in locals().items() if isinstance(value, type)}


OURS, THEIRS = make(records), make(dataclasses)
CALLS: list[tuple[str, tuple[object, ...], dict[str, object]]] = [
    ("Point", (1,), {}),
    ("Point", (1, 5, ["a"]), {}),
    ("Point", (), {"y": 4, "x": 3}),
    ("Child", (1,), {"z": 9}),
    ("Child", (1, 2, [], 4), {}),
    ("Identity", (1,), {}),
    ("Counter", (), {}),
    ("Counter", (4,), {"seen": {1}}),
    ("Open", (1,), {}),
    ("FrozenOpen", (1,), {"y": 8}),
    ("Empty", (), {}),
    ("Plain", (), {}),
]


def both(name: str) -> tuple[type, type]:
    return OURS[name], THEIRS[name]


@pytest.mark.parametrize(("name", "arguments", "named"), CALLS)
def test_instances_look_alike(name: str, arguments: Any, named: Any) -> None:
    ours, theirs = (cls(*arguments, **named) for cls in both(name))
    assert repr(ours) == repr(theirs)
    assert records.asdict(ours) == dataclasses.asdict(theirs)
    assert [f.name for f in records.fields(ours)] == [f.name for f in dataclasses.fields(theirs)]
    assert records.is_dataclass(ours)
    assert type(ours).__match_args__ == type(theirs).__match_args__  # type: ignore[attr-defined]
    assert hasattr(ours, "__dict__") == hasattr(theirs, "__dict__")
    assert type(ours).__qualname__ == type(theirs).__qualname__


@pytest.mark.parametrize(("name", "arguments", "named"), CALLS)
def test_comparison_and_hash(name: str, arguments: Any, named: Any) -> None:
    def facts(cls: type) -> list[object]:
        one, two = cls(*arguments, **named), cls(*arguments, **named)
        try:
            hashed: object = hash(one) == hash(two)
        except TypeError:
            hashed = "unhashable"
        return [one == two, one == one, one != two, hashed, one == (1, 2)]

    ours, theirs = both(name)
    assert facts(ours) == facts(theirs)


@pytest.mark.parametrize("name", sorted({name for name, *_ in CALLS} - {"Empty"}))
def test_what_can_be_set(name: str) -> None:
    def outcome(module: Any, cls: type) -> object:
        call = next(call for call in CALLS if call[0] == name)
        instance = cls(*call[1], **call[2])
        try:
            instance.x = 11
        except module.FrozenInstanceError as error:
            return str(error)
        except AttributeError:
            return "no such attribute"
        return instance.x

    ours, theirs = both(name)
    assert outcome(records, ours) == outcome(dataclasses, theirs)


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("Point", (), {}),
        ("Point", (1, 2, [], 4), {}),
        ("Point", (1,), {"q": 1}),
        ("Empty", (1,), {}),
    ],
)
def test_wrong_arguments_are_refused(name: str, arguments: Any, named: Any) -> None:
    for cls in both(name):
        with pytest.raises(TypeError):
            cls(*arguments, **named)


def test_replace() -> None:
    for module, cls in zip((records, dataclasses), both("Child"), strict=True):
        changed = module.replace(cls(1), z=8)
        assert (changed.x, changed.y, changed.z) == (1, 2, 8)
        with pytest.raises(TypeError):
            module.replace(cls(1), nothing=8)


def test_defaults_are_not_shared() -> None:
    one, two = OURS["Counter"](), OURS["Counter"]()
    one.seen.add(1)
    assert two.seen == set()


@records.dataclass(frozen=True, slots=True)
class Carried:
    x: int
    y: tuple[int, ...] = ()


def test_a_frozen_record_travels() -> None:
    assert pickle.loads(pickle.dumps(Carried(1, (2, 3)))) == Carried(1, (2, 3))


def test_every_record_of_the_package_is_one_to_the_standard_library() -> None:
    """What the standard decorator makes of the same annotations and defaults: the same fields."""
    seen = 0
    for info in pkgutil.walk_packages(icectl.__path__, "icectl."):
        if info.name.startswith(("icectl.spark", "icectl.examples")):
            continue
        module = importlib.import_module(info.name)
        for cls in vars(module).values():
            own = isinstance(cls, type) and vars(cls).get("__record_fields__")
            if not own or cls.__module__ != info.name:
                continue
            standard = {
                name
                for base in reversed(cls.__mro__)
                for name, kind in vars(base).get("__annotations__", {}).items()
                if not kind.startswith("ClassVar") and kind != "KW_ONLY"
            }
            assert set(own) == standard, cls
            seen += 1
    assert seen > 150
