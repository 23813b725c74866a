"""The one decorator of every compiled function, and the cache folder that keeps compiled code honest.

numba stamps cached machine code with the digest of the decorated function's own file only: an edited callee, an
imported constant or a swapped State field would silently run old code. So the cache folder is named by a digest of
all sources that can hold kernels, of the plug-ins loaded so far and of every NUMBA_* setting: any edit compiles anew,
and an edit taken back finds its old folder.

`_nrt=False` switches numba's reference counting off: a State of arrays can then be handed to small helpers at no
cost, and the compiler itself refuses kernels that allocate. The price: an index past the end corrupts memory in
silence. Every write to a pool or a log is therefore covered by a room check, and the test suite also runs with
NUMBA_BOUNDSCHECK=1.
"""

import hashlib
import os
import shutil
import struct
import tempfile
import types
from collections.abc import Callable, Iterator
from functools import partial
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
U32 = npt.NDArray[np.uint32]
U8 = npt.NDArray[np.uint8]

NIL = (1 << 31) - 1
"""No entry. Past the end of every pool, so that bounds checks catch its use as an index (-1 would be the last element)."""

PACKAGES = ("models", "traces", "sim")
FOLDERS_KEPT = 8

_ROOT = Path(__file__).resolve().parent.parent
_plugins: list[bytes] = []

if TYPE_CHECKING:

    def i64(value: Any) -> int:
        """Read an array element in a kernel as int64, whatever the array's own width."""
        return int(value)

    def index(value: int) -> int:
        """An index that is never negative, for the innermost loops: numba leaves out what counts a negative one from the end.

        To be wrapped around a finished index only: in compiled code its sum with a signed number would be a float.
        """
        return value

else:
    i64 = np.int64
    index = int if numba.config.DISABLE_JIT else np.uint64

F = TypeVar("F", bound=Callable[..., Any])


def sources_digest() -> str:
    """Digest of every Python source that may hold kernels, of the plug-ins named so far and of the NUMBA_* settings."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            digest.update(str(path.relative_to(_ROOT)).encode())
            digest.update(path.read_bytes())
    for content in _plugins:
        digest.update(content)
    for name in sorted(n for n in os.environ if n.startswith("NUMBA_")):
        digest.update(f"{name}={os.environ[name]}".encode())
    return digest.hexdigest()[:16]


def _writable_home() -> Path:
    """`.numba_cache` beside the packages, or the user's cache folder where that place is read-only."""
    beside = _ROOT / ".numba_cache"
    # A package that was installed into site-packages must not litter it.
    if (_ROOT / "pyproject.toml").exists() and os.access(_ROOT, os.W_OK):
        return beside
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = Path(base) / "dstlab" / "numba"
    try:
        home.mkdir(parents=True, exist_ok=True)
        return home
    except OSError:
        return Path(tempfile.gettempdir()) / f"dstlab-numba-{os.getuid()}"


def set_cache_folder() -> None:
    """Point numba at the folder of today's sources. A user's own NUMBA_CACHE_DIR is left alone."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    home = _writable_home()
    folder = home / sources_digest()
    numba.config.CACHE_DIR = str(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        others = sorted((p for p in home.iterdir() if p != folder), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in others[FOLDERS_KEPT - 1 :]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        pass  # another process may be cleaning the same place; a folder that stays does no harm


def add_plugin_source(path: str | os.PathLike[str]) -> None:
    """Let the content of a plug-in's file take part in the folder's name. Call before the plug-in is imported."""
    _plugins.append(Path(path).read_bytes())
    set_cache_folder()


def compiled() -> bool:
    """True when kernels run as machine code, False under NUMBA_DISABLE_JIT=1."""
    return not numba.config.DISABLE_JIT


set_cache_folder()
if "NUMBA_OPT" not in os.environ:
    numba.config.OPT = type(numba.config.OPT)(1)  # compiles a tenth faster than at level 3; the kernels run no slower


def _compile(function: Any, **options: bool) -> Any:
    """Two compiled forms of one function: one to call from Python, one for other kernels to call.

    What Python calls needs a wrapper that takes every array of every State apart, and building it takes as long as compiling a
    small kernel does. Most kernels are only ever called by kernels, so the form those see is built without a wrapper (measured:
    a quarter of the compilation of a run). A form is compiled when it is first used.

    Kernels see one version for int64, not one for each constant that some caller passes: numba types a constant argument as that
    very value, and a helper such as `touch` would be compiled dozens of times. The optimiser inlines small helpers and knows
    their constants anyway.
    """
    outer = numba.njit(cache=True, _nrt=False, no_cfunc_wrapper=True, **options)(function)
    if not compiled():
        return outer
    # numba's cache knows a function by its name, so the second form needs one of its own.
    twin = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    twin.__module__, twin.__qualname__ = function.__module__, function.__qualname__ + "_in_kernels"
    inner = numba.njit(cache=True, _nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True, **options)(twin)

    def get_call_template(args: Any, kws: Any) -> Any:
        plain = numba.types.unliteral
        return inner.get_call_template(tuple(plain(arg) for arg in args), {name: plain(arg) for name, arg in kws.items()})

    outer.get_call_template = get_call_template
    outer.get_overload = inner.get_overload
    outer.in_kernels = inner
    return outer


def kernel(function: F) -> F:
    """Compile a function of int64 scalars, arrays and NamedTuples of arrays. It may allocate nothing and take no functions."""
    decorated: F = _compile(function)
    return decorated


def inlined(function: F) -> F:
    """A kernel that is always compiled into its caller.

    For helpers with large bodies that run once per touch: a call would copy every array field of every State handed over
    (measured: a touch priced through plain kernels takes 77 ns, through these 26). Each call site is a copy of the body: have few.
    """
    decorated: F = _compile(function, forceinline=True)
    return decorated


class Standing:
    """A kernel that keeps its States from call to call.

    Handing a State over takes its arrays apart one by one, which for a kernel of eighty arrays takes longer than 64 packets do. So
    the kernel is written as a loop, a generator that is handed the States and an int64 array of numbers once and yields one result
    for each call; a call then costs what it takes to write the numbers (measured: 0.2 us instead of 13). States other than those of
    the last call begin the loop anew.

        @kernel
        def _loop(table, log, numbers):
            while True:
                yield walk(table, log, numbers[0])

        walk_on = Standing(_loop, 1)
        walk_on((table, log), 7)
    """

    def __init__(self, loop: Callable[..., Iterator[Any]], numbers: int) -> None:
        self._loop = loop
        self._numbers = np.zeros(numbers, np.int64)
        self._write = partial(struct.Struct(f"{numbers}q").pack_into, self._numbers.data, 0)  # three times as fast as an assignment
        self._states: tuple[Any, ...] = ()  # held here: the loop itself does not count references
        self._results: Iterator[Any] | None = None

    def __call__(self, states: tuple[Any, ...], *numbers: int) -> Any:
        """The kernel's result for these States and numbers."""
        if self._results is None or not all(map(is_, states, self._states)):
            self._states = states
            self._results = self._loop(*states, self._numbers)
        self._write(*numbers)
        try:
            return next(self._results)
        except BaseException:
            self._results = None  # a loop that has raised cannot go on
            raise
