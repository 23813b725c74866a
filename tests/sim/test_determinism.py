"""The same scenario and seed give the same bytes, whatever the order of rows, the number of workers, compiled or interpreted."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from golden.runner import NAMES, written

from models.kernel import compiled

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    return written(tmp_path_factory.mktemp("once") / "run")


def test_twice_the_same_bytes(once, tmp_path):
    assert written(tmp_path / "again") == once


@pytest.mark.skipif(not compiled(), reason="too slow interpreted")
def test_another_seed_gives_other_bytes(once, tmp_path):
    assert written(tmp_path / "other", seed=8) != once


@pytest.mark.skipif(not compiled(), reason="too slow interpreted")
def test_the_order_of_rows_does_not_matter(once, tmp_path):
    def rows(content):
        return {row["row"]: row for row in msgspec.json.decode(content[0])["rows"]}

    assert rows(written(tmp_path / "turned", NAMES[::-1])) == rows(once)


def test_the_number_of_workers_does_not_matter(once, tmp_path):
    assert written(tmp_path / "two", jobs=2) == once


@pytest.mark.skipif(not compiled(), reason="run from the compiled side")
def test_interpreted_the_same_bytes(once, tmp_path):
    code = (
        "import sys, pathlib; from golden.runner import written; "
        "out = written(pathlib.Path(sys.argv[1])); pathlib.Path(sys.argv[2]).write_bytes(b''.join(out))"
    )
    env = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    target = tmp_path / "bytes"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run"), str(target)], env=env, check=True, cwd=ROOT)
    assert target.read_bytes() == b"".join(once)
