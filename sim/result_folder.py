"""The folder of a result: `result.json` and `series.csv`, written whole or not at all.

Files are written into a new folder beside the wanted one and moved into place when they are complete, so a full disk or an
interrupt leaves nothing half-written. What the host needed (time, packets per second) stands in the `host` block alone.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from sim.errors import UserError, sentence
from sim.result import SCHEMA, Host, RowResult, RunResult, to_json

RESULT_FILE = "result.json"
SERIES_FILE = "series.csv"


def prepare_folder(folder: Path) -> None:
    """Find out before a long run whether a result can be written to `folder`. Raises UserError; leaves nothing behind."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {folder} is a file; name a folder")
    above = folder
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise UserError(f"--out {folder}: {above} is a file, not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise UserError(f"--out {folder}: no permission to write in {above}; choose a place that you may use")


def write_result(result: RunResult, folder: Path) -> None:
    """Write a result, replacing an older one in the same folder. Raises UserError if it cannot be written whole."""
    content = {SERIES_FILE: series_csv(result.rows).encode(), RESULT_FILE: to_json(_stored_form(result))}
    scratch: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        for name, data in content.items():
            _write(scratch / name, data)
        if folder.exists():
            for name in content:
                os.replace(scratch / name, folder / name)
        else:
            scratch.chmod(0o777 & ~_umask())
            scratch.rename(folder)
    except OSError as error:
        raise UserError(f"cannot write the result to {folder}: {error.strerror or error}; nothing was written") from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def write_file(path: Path, data: bytes) -> None:
    """Write one file whole or not at all; to a device or a pipe as it comes. Raises UserError."""
    if path.is_dir():
        raise UserError(f"{path} is a directory; name a file")
    path = path.resolve()  # a link stays a link
    if path.exists() and not path.is_file():
        try:
            with path.open("wb") as file:
                file.write(data)
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from error
        return
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        _write(scratch, data)
        os.replace(scratch, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}; nothing was written") from error
    finally:
        scratch.unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _stored_form(result: RunResult) -> dict[str, Any]:
    """What result.json holds: the series goes to its own file, what the host needed to the host block."""
    stored: dict[str, Any] = msgspec.to_builtins(result)
    hosts = {}
    for row in stored["rows"]:
        del row["series"]
        hosts[row["row"]] = row.pop("host")
    stored["host"] = result.host | {"rows": hosts}
    return stored


def series_csv(rows: list[RowResult]) -> str:
    """The time series of every row as CSV: column `row`, then the columns that any row has. Undefined values are empty."""
    columns = list(dict.fromkeys(name for row in rows for point in row.series for name in point))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", *columns])
    for row in rows:
        for point in row.series:
            writer.writerow([row.row, *(_cell(point.get(name)) for name in columns)])
    return text.getvalue()


def _cell(value: float | int | None) -> str:
    if value is None or not float("-inf") < value < float("inf"):
        return ""
    return repr(value)


def read_result(folder: str | Path) -> RunResult:
    """The result in a folder, series and host figures back in their rows. Raises UserError."""
    place = Path(folder)
    path = place / RESULT_FILE
    try:
        content = path.read_bytes()
        series = _read_series(place / SERIES_FILE)
    except FileNotFoundError as error:
        raise UserError(f"{error.filename} does not exist; the folder of a result holds {RESULT_FILE} and {SERIES_FILE}") from None
    except OSError as error:
        raise UserError(f"cannot read the result: {sentence(error)}") from None
    try:
        found = msgspec.json.decode(content, type=RunResult)
    except msgspec.DecodeError as error:
        raise UserError(f"{path} is not a result of dstlab: {error}") from None
    if found.schema != SCHEMA:
        raise UserError(f"{path} has schema {found.schema}; this version reads schema {SCHEMA}")
    hosts = found.host.pop("rows", {})
    rows = [
        msgspec.structs.replace(row, series=series.get(row.row, []), host=msgspec.convert(hosts.get(row.row, {}), Host))
        for row in found.rows
    ]
    return msgspec.structs.replace(found, rows=rows)


def _read_series(path: Path) -> dict[str, list[dict[str, float | int | None]]]:
    found: dict[str, list[dict[str, float | int | None]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            found.setdefault(line.pop("row"), []).append({name: _number(text) for name, text in line.items()})
    return found


def _number(text: str) -> float | int | None:
    if text == "":
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)
