"""Reading flow records against the bare csv and json readers of Python, and expanding four million flows that are active at once.

Prints records a second, the ratio, packets a second, and the memory a flow takes; asserts the records and packets that were timed.
"""

import csv
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from models.flow import make_batch
from traces.expand import FlowRecordSource
from traces.flow_records import FlowRecords, read_flow_records

RECORDS = 200_000
CONCURRENT, PACKETS_EACH = 4_000_000, 5
ZEEK = (
    *("ts", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto", "service", "duration"),
    *("orig_pkts", "orig_ip_bytes", "resp_pkts", "resp_ip_bytes"),
)


def files(folder: Path) -> dict[str, Path]:
    rng = random.Random(1)
    address = lambda: f"10.{rng.randrange(256)}.{rng.randrange(64)}.{rng.randrange(256)}"  # noqa: E731
    paths = {name: folder / name for name in ("nfdump", "zeek-tsv", "zeek-json")}
    with paths["nfdump"].open("w") as nfdump, paths["zeek-tsv"].open("w") as tsv, paths["zeek-json"].open("w") as lines:
        nfdump.write("firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n")
        tsv.write("#separator \\x09\n#unset_field\t-\n#path\tconn\n#fields\t" + "\t".join(ZEEK) + "\n")
        for i in range(RECORDS):
            source, destination, port, packets = address(), address(), rng.randrange(1024, 65536), rng.randrange(1, 50)
            second, span = i * 3600 // RECORDS, rng.random() * 10
            clock = f"2024-06-28 23:{second // 60:02}:{second % 60:02}.{rng.randrange(1000):03}"
            nfdump.write(f"{clock},{span:.3f},TCP,{source},{port},{destination},443,{packets},{packets * 700},1\n")
            values = [
                f"{1719615600 + second}.{rng.randrange(10**6):06}",
                "CHhAvVGS1DHFjwGM9",
                source,
                port,
                destination,
                443,
                "tcp",
            ]
            values += ["ssl", f"{span:.6f}", packets, packets * 700, packets, packets * 90]
            tsv.write("\t".join(map(str, values)) + "\n")
            text = (1, 2, 4, 6, 7)
            lines.write("{" + ",".join(f'"{ZEEK[k]}":' + (f'"{v}"' if k in text else str(v)) for k, v in enumerate(values)) + "}\n")
    return paths


def bare_csv(path: Path) -> int:
    with path.open() as file:
        return sum(1 for _ in csv.reader(file, delimiter="\t" if path.name == "zeek-tsv" else ","))


def bare_json(path: Path) -> int:
    with path.open() as file:
        return sum(1 for line in file if json.loads(line))


def seconds(action: Callable[[Path], object], path: Path) -> float:
    start = time.process_time()
    action(path)
    return time.process_time() - start


def expand_many() -> None:
    rng = np.random.default_rng(3)
    flows = CONCURRENT
    key = rng.integers(0, 1 << 32, (flows, 4), dtype=np.uint32)
    records = FlowRecords(
        start=np.sort(rng.integers(0, 10**9, flows)),
        duration=rng.integers(10**10, 2 * 10**10, flows),
        key=key,
        packets=np.full(flows, PACKETS_EACH, np.int64),
        bytes=rng.integers(300, 5000, flows),
    )
    batch = make_batch(4096)
    few = FlowRecords(*(column[:1000] for column in records[:5]))
    assert FlowRecordSource(few).fill(batch) == 4096  # compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source = FlowRecordSource(records)
    packets, last, start = 0, 0, time.process_time()
    while count := source.fill(batch):
        packets += count
        assert batch.time[0] >= last
        last = int(batch.time[count - 1])
    spent = time.process_time() - start
    described = source.describe()
    assert packets == flows * PACKETS_EACH == described["packets_recorded"]
    assert described["most_active"] == flows
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(
        f"{flows:,} flows active at once: {packets / spent / 1e6:.2f} Mpps, {more / flows:.0f} bytes a flow beside its record (48)"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, path in files(Path(folder)).items():
            found = read_flow_records(path)
            assert found.records == RECORDS
            assert found.start.size == RECORDS * (2 if "zeek" in name else 1)
            ours = min(seconds(read_flow_records, path) for _ in range(3))
            bare = min(seconds(bare_json if name == "zeek-json" else bare_csv, path) for _ in range(3))
            what = "json.loads" if name == "zeek-json" else "csv.reader"
            print(f"{name:10} {RECORDS / ours:9,.0f} records a second, {ours / bare:.1f} times as long as a bare {what}")
    expand_many()


if __name__ == "__main__":
    main()
