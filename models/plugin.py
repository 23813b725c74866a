"""Structures from outside the project: `file.py:Class` becomes a FlowCache class.

The file's content takes part in the name of the compile cache before it is imported (models/kernel.py), so that
an edited kernel of a plug-in is compiled anew. Other files that it imports do not take part.
"""

import importlib.util
import sys
from dataclasses import is_dataclass
from difflib import get_close_matches
from pathlib import Path

from models.interface import FlowCache
from models.kernel import add_plugin_source

MOST_CYCLES = 1_000_000_000
"""No function works longer than this for one call; bills are kept in integers."""


class PluginError(ValueError):
    """A plug-in that cannot be used; one sentence that says what is wrong and what cures it."""


def load_plugin(spec: str) -> type[FlowCache]:
    """The class that `FILE.py:CLASS` names. Raises PluginError."""
    file, colon, name = spec.rpartition(":")
    if not colon or not file or not name:
        raise PluginError(f"a structure of your own is named FILE.py:CLASS, got {spec!r}")
    path = Path(file)
    if path.is_dir():
        raise PluginError(f"{file} is a directory; name the Python file in it, as in {file.rstrip('/')}/my_cache.py:{name}")
    if not path.exists():
        raise PluginError(f"{file} does not exist; check the path before the colon in {spec!r}")
    try:
        add_plugin_source(path)
        module = _import(path)
    except OSError as error:
        raise PluginError(f"{file} cannot be read: {error.strerror or error}") from error
    found = getattr(module, name, None)
    if found is None:
        candidates = [key for key, value in vars(module).items() if _is_structure(value)]
        close = get_close_matches(name, candidates, 1)
        hint = f"did you mean {close[0]}?" if close else f"its structures are: {', '.join(candidates) or 'none'}"
        raise PluginError(f"{file} has no class {name}; {hint}")
    if not _is_structure(found):
        raise PluginError(f"{name} in {file} is not a structure: derive it from models.interface.FlowCache")
    cls: type[FlowCache] = found
    records = cls.records_per_packet
    if not isinstance(records, int) or records < 0:
        raise PluginError(f"{name} in {file}: records_per_packet must be a whole number of at least 0, got {records!r}")
    if not (isinstance(cls.Params, type) and is_dataclass(cls.Params)):
        raise PluginError(f"{name} in {file}: Params must be a dataclass, got {cls.Params!r}")
    if not isinstance(cls.instruction_cycles, dict):
        raise PluginError(f"{name} in {file}: instruction_cycles must be a dict of function name to cycles")
    for function, cycles in cls.instruction_cycles.items():
        if (
            not isinstance(function, str)
            or isinstance(cycles, bool)
            or not isinstance(cycles, int)
            or not 0 <= cycles <= MOST_CYCLES
        ):
            raise PluginError(
                f"{name} in {file}: instruction_cycles of {function!r} must be a whole number of cycles a call, "
                f"from 0 to {MOST_CYCLES}, got {cycles!r}"
            )
    if not cls.name:
        cls.name = name
    return cls


def _is_structure(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, FlowCache) and value is not FlowCache


def _import(path: Path) -> object:
    module_name = f"dstlab_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"{path} is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # pickling and dataclasses look it up there
    try:
        spec.loader.exec_module(module)
    except OSError:
        raise
    except SyntaxError as error:
        del sys.modules[module_name]
        raise PluginError(f"{path} is not valid Python: line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        raise PluginError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
