"""Structures by name or from a user's own file, with a sentence for whatever is wrong with them."""

from __future__ import annotations

from typing import Any

from models.interface import STRUCTURES, FlowCache, make_params, structure_class
from sim.errors import UserError, did_you_mean


def is_plugin(spec: str) -> bool:
    """True for `FILE.py:CLASS`."""
    return ".py:" in spec or spec.endswith(".py")


def check_structure_name(spec: str, place: str) -> None:
    """Refuse an unknown name without importing anything."""
    if not is_plugin(spec) and spec not in STRUCTURES:
        raise UserError(f"{place}unknown structure {spec!r}; {did_you_mean(spec, STRUCTURES)}")


def find_structure(spec: str) -> type[FlowCache]:
    """The class of a built-in structure, or of `FILE.py:CLASS`. Raises UserError or models.plugin.PluginError (a ValueError)."""
    if is_plugin(spec):
        from models.plugin import load_plugin

        return load_plugin(spec)
    check_structure_name(spec, "")
    return structure_class(spec)


def check_parameters(spec: str, values: dict[str, Any], place: str) -> type[FlowCache]:
    """Build a structure's parameters once, so that what it refuses is refused before anything runs."""
    found = find_structure(spec)
    try:
        make_params(found, values)
    except ValueError as error:
        raise UserError(f"{place}{error}") from error
    return found


def parse_value(text: str) -> Any:
    """A value from the command line: a TOML number, truth value, list or quoted text; anything else is text."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def parse_structure(argument: str) -> tuple[str, dict[str, Any]]:
    """`NAME[,key=value]...` as (NAME, parameters). Raises UserError for a part that is no key=value."""
    spec, *parts = argument.split(",")
    values: dict[str, Any] = {}
    for part in parts:
        key, equals, text = part.partition("=")
        if not equals or not key:
            raise UserError(f"--structure {argument}: {part!r} is not KEY=VALUE; write for example rt_hash,rhash_entries=65536")
        values[key.strip()] = parse_value(text.strip())
    return spec, values
