"""Read every capture of a folder; where FILE.arkime.test.json stands beside one, compare offsets and outer 5-tuples with it.

    python benchmarks/check_captures.py FOLDER

Arkime's test files list sessions: the byte offset of each packet's record in the file (`packetPos`, of single files negative
file numbers left out) and the 5-tuple. Every offset must be where a record begins by a walk over the lengths of its own, not by the
reader; each session that is not tunnelled
must be one of our flows.
"""

import json
import socket
import struct
import sys
from pathlib import Path

from models.flow import make_batch
from traces.capture import CaptureError, open_capture


def offsets(path: Path) -> list[int]:
    """Where each record of a classic capture begins, by nothing but the lengths."""
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    found, at = [], 24
    while at + 16 <= len(data):
        (captured,) = struct.unpack_from(order + "I", data, at + 8)
        found.append(at)
        at += 16 + captured
    return found


def flows(path: Path) -> tuple[set[tuple[str, int, str, int, int]], int, dict[str, int]]:
    """Outer 5-tuples of both families, records, and what was left out by reason."""
    found: set[tuple[str, int, str, int, int]] = set()
    left_out: dict[str, int] = {}
    records = 0
    for family, words in ((4, 4), (6, 10)):
        source, batch = open_capture(path, family=family), make_batch(512, words)
        half = (words - 2) // 2
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        while count := source.fill(batch):
            for row in batch.key[:count].tolist():
                one, two = (socket.inet_ntop(kind, struct.pack(f">{half}I", *part)) for part in (row[:half], row[half : 2 * half]))
                found.add((one, row[-2] >> 16, two, row[-2] & 0xFFFF, row[-1] >> 24))
        records = source.describe()["records"]
        left_out |= {reason: n for reason, n in source.skipped().items() if reason not in ("ipv4", "ipv6")}
        if source.describe()["damage"]:
            left_out[source.describe()["damage"][0].partition(": ")[2]] = 1
    return found, records, left_out


def compare(path: Path, expected: Path, found: set[tuple[str, int, str, int, int]]) -> str:
    """What the oracle says and we do not, in a few words."""
    sessions = json.loads(expected.read_text())["sessions3"]
    positions = sorted({at for session in sessions for at in session["body"]["packetPos"] if at > 0})
    ours = set(offsets(path))
    strange = [at for at in positions if at not in ours]
    lacking, tunnelled, without = [], 0, 0
    for session in sessions:
        body = session["body"]
        if {"gre", "vxlan", "gtp", "ipip", "6in4", "geneve", "erspan"} & set(body.get("protocol", ())) or "outerip" in body:
            tunnelled += 1
            continue
        try:
            tuple_ = (
                body["source"]["ip"],
                body["source"].get("port", 0),
                body["destination"]["ip"],
                body["destination"].get("port", 0),
            )
        except KeyError:
            without += 1
            continue
        proto = body["ipProtocol"]
        source, destination = (_text(ip) for ip in (tuple_[0], tuple_[2]))
        ports = (tuple_[1], tuple_[3]) if proto in (6, 17, 132) else (0, 0)
        if (source, ports[0], destination, ports[1], proto) not in found:
            lacking.append((source, ports[0], destination, ports[1], proto))
    text = f"oracle: {len(positions)} offsets, {len(strange)} not ours; {len(sessions)} sessions, {tunnelled} tunnelled, "
    return text + f"{without} without addresses, {len(lacking)} not among our flows {lacking[:3] if lacking else ''}"


def _text(ip: str) -> str:
    kind = socket.AF_INET6 if ":" in ip else socket.AF_INET
    return socket.inet_ntop(kind, socket.inet_pton(kind, ip))


def main() -> int:
    if len(sys.argv) != 2:
        print("give the folder with the captures: python benchmarks/check_captures.py FOLDER")
        return 0
    folder = Path(sys.argv[1])
    twins: dict[str, set[tuple[str, int, str, int, int]]] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".csv"):
            continue
        try:
            found, records, left_out = flows(path)
        except CaptureError as error:
            print(f"{path.name}: refused: {str(error).replace(str(folder), '')}")
            continue
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        print(f"{path.name}: {records} records, {len(found)} flows{'; ' + reasons if reasons else ''}")
        expected = path.with_name(path.name + ".arkime.test.json")
        if expected.exists():
            print(f"    {compare(path, expected, found)}")
        if path.name.startswith("pcapnggen-") and "test202" in path.name:
            twins[path.name] = found
    if len(twins) == 2:
        one, two = twins.values()
        print(f"byte-order twins: {'the same packets' if one == two else 'DIFFERENT'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
