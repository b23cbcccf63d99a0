"""`config.yaml`, the configuration of repositories of spec version 1 and earlier.

The official writer marks the variant of a choice with a YAML tag: `store: !s3 {…}`. It is decoded
as a mapping with one entry, `{"s3": {…}}`, the form that the FlexBuffers configuration of
spec version 2 uses. Scalars follow the core schema of YAML 1.2, as in the official reader.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from icectl import limits
from icectl.errors import FormatError

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 32

_CHOICES = frozenset({"store", "preload_if", "from", "to", "condition"})
"""Fields whose value is a choice between variants. Items of any list are choices, too."""

_PLAIN = re.compile(r"(?!(?:true|false|null|yes|no|on|off|y|n)$)[a-zA-Z_][a-zA-Z0-9_]*", re.I)
_TAG = re.compile(r"[A-Za-z0-9_-]+")


class Variant(dict[str, object]):
    """A mapping with one entry that is always written with a tag."""


def decode_config_yaml(data: bytes) -> dict[str, object]:
    import yaml

    most = limits.CONFIG_YAML_BYTES
    limits.require(
        "CONFIG_YAML_BYTES", len(data), most, "the size of the configuration in bytes is"
    )
    try:
        text = data.decode()
        _check_events(text)
        config = yaml.load(text, _loader())
    except FormatError:
        raise
    except yaml.MarkedYAMLError as error:
        offset = error.problem_mark.index if error.problem_mark else None
        raise FormatError(
            f"the configuration is not YAML: {error.problem}", offset=offset
        ) from error
    except Exception as error:
        raise FormatError(f"the configuration is not YAML: {error}") from error
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise FormatError("the configuration is not a mapping")
    return config


def _check_events(text: str) -> None:
    """Refuse aliases and deep nesting before building any value."""
    import yaml

    depth = 0
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.AliasEvent):
            raise FormatError("the configuration has a YAML alias, which icectl does not support")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth >= MAX_DEPTH:
                raise FormatError(f"the configuration nests deeper than {MAX_DEPTH}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def encode_config_yaml(config: Mapping[str, object]) -> bytes:
    import yaml

    node = _node(config, choice=False, depth=0)
    try:
        text: str = yaml.serialize(node, Dumper=_dumper(), allow_unicode=True, width=sys.maxsize)
        return text.encode()
    except UnicodeEncodeError as error:
        raise FormatError("text that is not valid Unicode cannot be stored") from error


def _node(value: object, *, choice: bool, depth: int) -> yaml.Node:
    """Return the value as PyYAML nodes, with a tag for each choice between variants."""
    import yaml

    if depth > MAX_DEPTH:
        raise FormatError(f"the configuration nests deeper than {MAX_DEPTH}")
    if isinstance(value, Mapping) and (isinstance(value, Variant) or (choice and len(value) == 1)):
        [(tag, inner)] = value.items()
        if not _TAG.fullmatch(tag):
            raise FormatError(f"{tag!r} is not a valid name of a variant")
        node = _node(inner, choice=False, depth=depth + 1)
        node.tag = f"!{tag}"
        return node
    if isinstance(value, Mapping):
        items = [
            (_scalar(str(name)), _node(item, choice=name in _CHOICES, depth=depth + 1))
            for name, item in value.items()
        ]
        return yaml.MappingNode("tag:yaml.org,2002:map", items, flow_style=not items)
    if isinstance(value, list | tuple):
        elements = [_node(item, choice=True, depth=depth + 1) for item in value]
        return yaml.SequenceNode("tag:yaml.org,2002:seq", elements, flow_style=not elements)
    return _scalar(value)


def _scalar(value: object) -> yaml.ScalarNode:
    import yaml

    if isinstance(value, str):
        # Quote the text unless every version of YAML reads it as a string.
        style = None if _PLAIN.fullmatch(value) else '"'
        return yaml.ScalarNode("tag:yaml.org,2002:str", value, style=style)
    if value is None or isinstance(value, bool | int):
        kind = "null" if value is None else "bool" if isinstance(value, bool) else "int"
        return yaml.ScalarNode(f"tag:yaml.org,2002:{kind}", json.dumps(value))
    if isinstance(value, float):
        text = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(repr(value), repr(value))
        return yaml.ScalarNode("tag:yaml.org,2002:float", text)
    raise FormatError(f"a configuration cannot contain a value of type {type(value).__name__}")


@functools.cache
def _dumper() -> type[yaml.SafeDumper]:
    import yaml

    class Dumper(yaml.SafeDumper):
        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012

        def choose_scalar_style(self) -> str:
            """PyYAML quotes every scalar whose tag is written; a number must stay a number."""
            if getattr(self.event, "style", None) is None:
                return ""
            style: str = super().choose_scalar_style()
            return style

    _add_core_schema(Dumper)
    return Dumper


@functools.cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    # The parser in C is ten times as fast; PyYAML can be built without it.
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            mapping: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                name = self.construct_object(key_node, deep=True)
                if not isinstance(name, str) or name in mapping:
                    raise FormatError(
                        f"the key {name!r} of the configuration is duplicated or not a string",
                        offset=key_node.start_mark.index,
                    )
                mapping[name] = self.construct_object(value_node, deep=True)
            return mapping

        def construct_yaml_int(self, node: Any) -> int:
            number: int = super().construct_yaml_int(node)
            if not -(2**63) <= number < 2**64:
                raise FormatError(
                    "the configuration contains a number with more than 64 bits",
                    offset=node.start_mark.index,
                )
            return number

        def construct_variant(self, tag: str, node: Any) -> Variant:
            if isinstance(node, yaml.MappingNode):
                return Variant({tag: self.construct_mapping(node, deep=True)})
            if isinstance(node, yaml.SequenceNode):
                return Variant({tag: self.construct_sequence(node, deep=True)})
            plain = not node.style  # None or "", depending on the parser
            resolved = self.resolve(yaml.ScalarNode, node.value, (plain, not plain))
            scalar = yaml.ScalarNode(resolved, node.value, node.start_mark, node.end_mark)
            return Variant({tag: self.construct_object(scalar, deep=True)})

    _add_core_schema(Loader)
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
    Loader.add_multi_constructor("!", Loader.construct_variant)
    return Loader


def _add_core_schema(resolver: Any) -> None:
    """Add the scalars of YAML 1.2, which the official reader and writer use."""
    for name, pattern, first in (
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
        ("int", r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", list("-+0123456789")),
        (
            "float",
            r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
            list("-+.0123456789"),
        ),
    ):
        resolver.add_implicit_resolver(
            f"tag:yaml.org,2002:{name}", re.compile(rf"^(?:{pattern})$"), first
        )
