"""The rules of compiled code (docs/design.md, "Kernels"), each with a check."""

import ast
import gc
import os
import shutil
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
import pytest

from models.kernel import I64, Standing, compiled, kernel

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [path for package in ("models", "traces", "sim") for path in sorted((ROOT / package).rglob("*.py"))]
KERNEL = ROOT / "models" / "kernel.py"
DECORATORS = ("kernel", "inlined")

needs_jit = pytest.mark.skipif(not compiled() or "NUMBA_BOUNDSCHECK" in os.environ, reason="needs ordinary compiled code")


def run(code: str, root: Path = ROOT, **environment: str) -> str:
    """What a fresh interpreter prints for `code`, with models imported from `root`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore::numba.core.errors.NumbaWarning", "-c", textwrap.dedent(code)],
        cwd=root,
        env={**kept, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def is_kernel(function: ast.AST) -> bool:
    return isinstance(function, ast.FunctionDef) and any(
        isinstance(d, ast.Name) and d.id in DECORATORS for d in function.decorator_list
    )


COMPILERS = {
    "njit",
    "jit",
    "vectorize",
    "guvectorize",
    "cfunc",
    "stencil",
    "jitclass",
    "typed",
    "experimental",
    "extending",
    "cuda",
    "prange",
}


def uses_of_compilers(source: str) -> list[str]:
    """Every way in which a source reaches numba's own compilers and containers."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [
                alias.name for alias in node.names if alias.name.startswith("numba.") and alias.name.split(".")[1] in COMPILERS
            ]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "numba":
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            found += [name for name in names if name in COMPILERS]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "numba":
            found += [node.attr] if node.attr in COMPILERS else []
    return found


def faults_of_kernels(source: str) -> list[str]:
    """Kernels that are closures, take options, or use what kernels may not."""
    tree, faults = ast.parse(source), []
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef):
            faults += [f"{n.name} is a closure" for n in ast.walk(outer) if n is not outer and is_kernel(n)]
        if isinstance(outer, ast.FunctionDef) and is_kernel(outer):
            for node in ast.walk(outer):
                if isinstance(
                    node, ast.Lambda | ast.ListComp | ast.DictComp | ast.List | ast.Dict | ast.Set | ast.JoinedStr | ast.Try
                ):
                    faults.append(f"{outer.name} line {node.lineno}: {type(node).__name__}")
    return faults


def test_numba_is_used_through_the_one_decorator():
    bad = "from numba import njit\nimport numba.typed\nnumba.jit(fastmath=True)\nnumba.__version__"
    assert sorted(uses_of_compilers(bad)) == ["jit", "njit", "numba.typed"]
    for path in SOURCES:
        if path != KERNEL:
            assert not uses_of_compilers(path.read_text()), (
                f"{path.relative_to(ROOT)}: kernels use models.kernel.kernel, nothing else"
            )
    calls = [line for line in KERNEL.read_text().splitlines() if "numba.njit(" in line or "numba.jit(" in line]
    assert calls == [
        "    outer = numba.njit(cache=True, _nrt=False, no_cfunc_wrapper=True, **options)(function)",
        "    inner = numba.njit(cache=True, _nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True, **options)(twin)",
    ]


def test_kernels_hold_nothing_that_allocates_and_are_no_closures():
    bad = "def f():\n    @kernel\n    def g():\n        return [1]\n"
    assert faults_of_kernels(bad) == ["g is a closure", "g line 4: List"]
    seen = 0
    for path in SOURCES:
        source = path.read_text()
        seen += source.count("@kernel")
        assert not faults_of_kernels(source), f"{path.relative_to(ROOT)}"
    assert seen > 20


def test_numba_is_the_pinned_version():
    """_nrt is not a documented option of njit: another version must be tried before it is allowed."""
    assert f'"numba=={numba.__version__}"' in (ROOT / "pyproject.toml").read_text()


@needs_jit
@pytest.mark.parametrize("module", ["models.reference", "models.rt_hash.forward"])
def test_compiled_form_counts_no_references(module, tmp_path):
    """Compiled afresh in a folder of its own: for code from a cache numba returns an empty answer."""
    if not (ROOT / (module.replace(".", "/") + ".py")).exists():
        pytest.skip(f"{module} is not there")
    code = f"""
        import numpy as np, {module}
        from models.access import make_log
        from models.drive import drive
        from models.flow import make_batch
        from models.interface import Context, World, structure_class
        from models.rcu import Rcu
        from models.simulated_memory import SimulatedMemory
        world = World(SimulatedMemory(), Rcu(), np.random.default_rng(1))
        cls = structure_class("{"perfect" if module == "models.reference" else "rt_hash"}")
        structure = cls(cls.Params(), world)
        batch = make_batch(4)
        batch.packets[0] = 4
        batch.route[:] = 1
        drive(structure, batch, Context(0, 0, make_log(4096, 4), world), lambda log, first, stop: None)
        kernels = [k for k in vars({module}).values() if getattr(k, "signatures", None) and "forward" in k.__name__]
        kernels += [k.in_kernels for k in kernels]
        text = "".join(t for k in kernels for t in k.inspect_llvm().values())
        print(len(text) > 1000, "NRT_incref" in text, "NRT_decref" in text)
    """
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == "True False False"


@needs_jit
def test_the_form_check_would_see_references(tmp_path):
    code = """
        import numba, numpy as np
        from collections import namedtuple
        S = namedtuple("S", "a b")
        @numba.njit
        def step(s, i):
            for k in range(s.a[i & 1]):
                s.b[k & 1] += i
        @numba.njit
        def loop(s, n):
            for i in range(n):
                step(s, i)
        loop(S(np.ones(2, np.int64), np.ones(2, np.int64)), 3)
        print("NRT_incref" in "".join(loop.inspect_llvm().values()))
    """
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == "True"


@pytest.fixture
def copy(tmp_path) -> Path:
    """A project of two files around a copy of the decorator."""
    root = tmp_path / "copy"
    (root / "models").mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    (root / "models" / "__init__.py").write_text("")
    shutil.copy(KERNEL, root / "models" / "kernel.py")
    (root / "models" / "callee.py").write_text(CALLEE)
    (root / "models" / "caller.py").write_text(CALLER)
    return root


CALLEE = """
from typing import NamedTuple
from models.kernel import I64, kernel

class State(NamedTuple):
    a: I64
    b: I64

@kernel
def step(s):
    return s.a[0]
"""
CALLER = """
import numpy as np
from models.callee import State, step
from models.kernel import kernel

@kernel
def double(s):
    return 2 * step(s)

def answer():
    return int(double(State(*(np.array([n], np.int64) for n in (1, 2)))))
"""
ASK = "import models.caller as c; print(c.answer())"
HITS = "import models.caller as c; c.answer(); print(sum(c.double.stats.cache_hits.values()))"


@needs_jit
def test_an_edited_callee_is_compiled_anew(copy):
    assert [run(ASK, copy), run(HITS, copy)] == ["2", "1"]
    (copy / "models" / "callee.py").write_text(CALLEE.replace("return s.a[0]", "return s.a[0] + 5"))
    assert run(ASK, copy) == "12"
    (copy / "models" / "callee.py").write_text(CALLEE)
    assert [run(ASK, copy), run(HITS, copy)] == ["2", "1"]


@needs_jit
def test_swapped_state_fields_are_compiled_anew(copy):
    assert run(ASK, copy) == "2"
    (copy / "models" / "callee.py").write_text(CALLEE.replace("    a: I64\n    b: I64", "    b: I64\n    a: I64"))
    assert run(ASK, copy) == "4"


@needs_jit
def test_without_the_digest_the_old_code_would_run(copy, tmp_path):
    """Why the rule exists; if this fails, numba has learnt to notice and the digest may go."""
    fixed = str(tmp_path / "fixed")
    assert run(ASK, copy, NUMBA_CACHE_DIR=fixed) == "2"
    (copy / "models" / "callee.py").write_text(CALLEE.replace("return s.a[0]", "return s.a[0] + 5"))
    assert run(ASK, copy, NUMBA_CACHE_DIR=fixed) == "2"


def test_a_plug_in_takes_part_in_the_folders_name(copy):
    code = """
        import models.kernel as k
        from pathlib import Path
        before = k.sources_digest()
        Path("mine.py").write_text("a = 1"); k.add_plugin_source("mine.py")
        print(len({before, k.sources_digest()}), k.numba.config.CACHE_DIR.endswith(k.sources_digest()))
    """
    assert run(code, copy) == "2 True"


FOLDER = "import models.kernel as k; print(k.numba.config.CACHE_DIR)"


def test_bounds_checks_get_a_folder_of_their_own(copy):
    assert run(FOLDER, copy) != run(FOLDER, copy, NUMBA_BOUNDSCHECK="1")


@needs_jit
def test_bounds_checks_are_in_force_after_a_run_without(copy):
    (copy / "models" / "callee.py").write_text(CALLEE.replace("s.a[0]", "s.a[1]"))
    run(ASK, copy)
    code = "import models.caller as c\ntry:\n    c.answer()\nexcept IndexError:\n    print('caught')"
    assert run(code, copy, NUMBA_BOUNDSCHECK="1") == "caught"


def test_a_users_own_cache_folder_is_left_alone(copy, tmp_path):
    own = str(tmp_path / "own")
    assert run(FOLDER, copy, NUMBA_CACHE_DIR=own) == own
    assert not (copy / ".numba_cache").exists()


def test_old_folders_are_removed(copy):
    for n in range(12):
        (copy / "models" / "callee.py").write_text(CALLEE + f"# {n}\n")
        run(FOLDER, copy)
    assert len(list((copy / ".numba_cache").iterdir())) == 8


@kernel
def _sum_loop(values: I64, numbers: I64) -> Iterator[int]:
    while True:
        total = 0
        for i in range(numbers[0], numbers[1]):
            if values[i] < 0:
                raise ValueError("a negative value")
            total += values[i]
        yield total


def test_a_standing_kernel_sees_new_numbers_and_what_its_arrays_hold_now():
    total, values = Standing(_sum_loop, 2), np.arange(10)
    assert total((values,), 0, 10) == 45
    values[0] = 100
    assert total((values,), 0, 2) == 101


def test_a_standing_kernel_begins_anew_with_other_states():
    total = Standing(_sum_loop, 2)
    assert total((np.arange(10),), 0, 10) == 45
    gc.collect()  # the first array is gone: nothing but the kernel held it
    assert total((np.ones(10, np.int64),), 0, 10) == 10


def test_a_standing_kernel_goes_on_after_it_has_raised():
    total, values = Standing(_sum_loop, 2), np.array([1, -1, 2])
    with pytest.raises(ValueError, match="a negative value"):
        total((values,), 0, 3)
    assert total((values,), 2, 3) == 2


def test_a_standing_kernel_holds_its_states():
    total, values = Standing(_sum_loop, 2), np.arange(10)
    held = weakref.ref(values)
    assert total((values,), 0, 10) == 45
    del values
    assert held() is not None


@kernel
def _inner(n: int) -> int:
    return n + 1


@kernel
def _outer(n: int) -> int:
    return _inner(n)


@needs_jit
def test_a_kernel_has_a_form_for_python_and_one_for_kernels():
    assert _outer(1) == 2
    assert (len(_inner.overloads), len(_inner.in_kernels.overloads)) == (0, 1)
    assert _inner(1) == 2
    assert len(_inner.overloads) == 1
