"""Strict TOML input: scenarios, machines and cost sheets, the project's own by name or a user's by path.

A key that does not exist, a missing one and a value of the wrong type are refused in one sentence with file, place, value
and, where there is one, the nearest right name.
"""

from __future__ import annotations

import re
import tomllib
import types
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from sim.errors import UserError, did_you_mean, sentence

T = TypeVar("T")

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table of keys",
    "null": "nothing",
}
_UNITS = {
    "_kpps": "thousand packets per second",
    "_pps": "packets per second",
    "_bytes": "bytes",
    "_hz": "hertz",
    "_ns": "nanoseconds",
    "_us": "microseconds",
    "_s": "seconds",
}


def unit_of(name: str) -> str:
    """The unit that a name ends with, in words; empty if it has none."""
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "hertz" if name == "hz" else "")


def read_toml(path: str | Path, what: str = "file") -> dict[str, Any]:
    """The content of a TOML file. Raises UserError if it cannot be read or is no TOML."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such {what}") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a directory; name the {what} inside it") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file; a {what} is TOML in UTF-8") from None
    except OSError as error:
        raise UserError(f"cannot read the {what}: {sentence(error)}") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None


def names_in(folder: Path) -> list[str]:
    """Names of the TOML files of a folder."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def looks_like_path(name: str) -> bool:
    """True for what names a file rather than something of the project's own."""
    return name.endswith(".toml") or "/" in name


def find_named(name: str, folder: Path, what: str) -> Path:
    """The file of a name in the project's folder, or the path itself if it looks like one. Raises UserError for an unknown name."""
    if looks_like_path(name):
        return Path(name)
    path = folder / f"{name}.toml"
    if not name or not path.is_file():
        if Path(name).is_dir():
            raise UserError(f"{name} is a directory; name a {what} or a TOML file inside it")
        raise UserError(f"unknown {what} {name!r}; {did_you_mean(name, names_in(folder))}")
    return path


def load_named(kind: type[T], name: str, folder: Path, what: str) -> T:
    """Read a file of the project by name, or a user's own by path, as a value of `kind`. Raises UserError."""
    path = find_named(name, folder, what)
    return decode(read_toml(path, what), kind, str(path) if looks_like_path(name) else f"{what} {name}")


def decode(value: Any, kind: type[T], place: str) -> T:
    """A plain value as `kind`. `place` begins every sentence of a UserError: the file, or what is being read."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UserError(f"{place}: {_explain(str(error), value, kind)}") from None


def _explain(message: str, value: Any, kind: Any) -> str:
    """A sentence of our own for a message of msgspec."""
    text, _, path = message.partition(" - at `")
    where, found, wanted, last = _walk(path.rstrip("`"), value, kind)
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text)
    if unknown:
        known = [field.encode_name for field in msgspec.structs.fields(wanted)]
        return f"{where}{unknown[1]} is not a known key; {did_you_mean(unknown[1], known)}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if missing:
        return f"{where}{missing[1]} is missing"
    name = where.rstrip(".") or "it"
    if get_origin(wanted) is Literal:
        options = [str(option) for option in get_args(wanted)]
        return f"{name} must be one of {', '.join(options)}, got {found!r}"
    types_ = re.fullmatch(r"Expected `(.*)`, got `(.*)`", text)
    if types_:
        kinds = " or ".join(_KINDS.get(k.strip(), k.strip()) for k in types_[1].split("|") if k.strip() != "null")
        unit = unit_of(last)
        return f"{name} must be {kinds}{f' ({unit})' if unit else ''}, got {found!r}"
    return f"{name}: {text[:1].lower()}{text[1:]}, got {found!r}"


def _walk(path: str, value: Any, kind: Any) -> tuple[str, Any, Any, str]:
    """Follow a path such as `$.row[2].traffic`: its name for users (ending in a dot), the value there, its type, the last key."""
    where, last = "", ""
    for key, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path):
        kind = _bare(kind)
        if key:
            value = value.get(key) if isinstance(value, dict) else None
            kind = _field_type(kind, key)
            where, last = f"{where}{key}.", key
        elif index == "...":
            kind = (get_args(kind) or (Any,))[-1]
            where = f"{where.rstrip('.')} (a value in it)."
        else:
            value = value[int(index)] if isinstance(value, list) else None
            kind = (get_args(kind) or (Any,))[0]
            name = value.get("name") if isinstance(value, dict) else None
            where = f"{where.rstrip('.')}[{f'{int(index) + 1}: {name}' if name else int(index) + 1}]."
    return where, value, _bare(kind), last


def _bare(kind: Any) -> Any:
    """A type without `| None`."""
    if get_origin(kind) in (Union, types.UnionType):
        rest = [k for k in get_args(kind) if k is not type(None)]
        return rest[0] if len(rest) == 1 else kind
    return kind


def _field_type(kind: Any, key: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return next((field.type for field in msgspec.structs.fields(kind) if field.encode_name == key), Any)
    return (get_args(kind) or (Any,))[-1]
