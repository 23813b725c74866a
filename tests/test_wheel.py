"""The wheel holds the three packages and their data, and nothing else."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from models.kernel import compiled

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("models", "traces", "sim")

# The wheel does not depend on how kernels run: once is enough.
pytestmark = pytest.mark.skipif(not compiled() or "NUMBA_BOUNDSCHECK" in os.environ, reason="checked in the plain run")


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> set[str]:
    """Names in a wheel built from a copy of the project, so that no build folder is left behind."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for package in (*PACKAGES, "tests", "docs", "benchmarks"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy / file)
    (copy / "results").mkdir()
    (copy / "results" / "result.json").write_text("{}")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(out), str(copy)],
        check=True,
        capture_output=True,
        text=True,
    )
    (wheel,) = out.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_wheel_holds_the_three_packages_alone(names):
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_wheel_holds_every_source_and_all_data(names):
    wanted = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for pattern in ("*.py", "*.toml", "*.csv", "py.typed")
        for path in (ROOT / package).rglob(pattern)
    }
    assert wanted <= names, f"missing: {sorted(wanted - names)}"
