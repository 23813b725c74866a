"""How fast captures are read to flow keys: against dpkt's bare readers, which only hand out each record's bytes, in the same run.

    python benchmarks/reader_speed.py            # 64-byte packets, pcap and pcapng
    python benchmarks/reader_speed.py --large    # and a pcap of 1 GB, made and removed: its speed and the memory that it takes

Every packet is counted by both; keys are checked for the first and the last packet.
"""

import argparse
import os
import resource
import struct
import sys
import tempfile
import time
from pathlib import Path

import dpkt

from models.flow import make_batch
from traces.capture import open_capture

PACKETS = 400_000
PACKET_BYTES = 60
"""64 on the wire with the checksum, which captures do not hold."""
ROOM = 4096


def frame(i: int) -> bytes:
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 46, 0, 0, 64, 17, 0, 0x0A000000 + i % 65536, 0x0B000000 + i)
    return (b"\2" * 12 + b"\x08\0" + ip + struct.pack(">HHHH", 7, 9, 26, 0)).ljust(PACKET_BYTES, b"\0")


def write_pcap(path: Path, packets: int) -> None:
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for i in range(packets):
            out.write(struct.pack("<IIII", i // 1000, i % 1000 * 1000, PACKET_BYTES, PACKET_BYTES) + frame(i))


def write_pcapng(path: Path, packets: int) -> None:
    with open(path, "wb") as out:
        out.write(
            struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28) + struct.pack("<IIHHII", 1, 20, 1, 0, 65535, 20)
        )
        size = 32 + PACKET_BYTES
        for i in range(packets):
            head = struct.pack("<IIIIIII", 6, size, 0, 0, i * 1000, PACKET_BYTES, PACKET_BYTES)
            out.write(head + frame(i) + struct.pack("<I", size))


def ours(path: Path, packets: int) -> float:
    """Seconds; every packet counted."""
    batch, source, found = make_batch(ROOM), open_capture(path, strict=True), 0
    started = time.process_time()
    while count := source.fill(batch):
        if found == 0:
            assert batch.key[0].tolist() == [0x0A000000, 0x0B000000, 7 << 16 | 9, 17 << 24 | 1]
        found += count
        last = count - 1
    seconds = time.process_time() - started
    assert found == packets, f"{found} packets of {packets}"
    assert int(batch.key[last, 1]) == 0x0B000000 + packets - 1
    return seconds


def theirs(path: Path, packets: int, reader: type) -> float:
    """Seconds of dpkt's reader alone."""
    with open(path, "rb") as file:
        started = time.process_time()
        found = sum(1 for _ in reader(file))
        seconds = time.process_time() - started
    assert found == packets
    return seconds


def compare(name: str, path: Path, reader: type, asked: int) -> None:
    ours(path, PACKETS)  # compiles
    pairs = [(theirs(path, PACKETS, reader), ours(path, PACKETS)) for _ in range(3)]
    dpkt_s, own_s = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    print(
        f"{name:7} {PACKETS / own_s / 1e6:6.1f} M packets/s, dpkt's bare reader {PACKETS / dpkt_s / 1e6:5.2f}: "
        f"{dpkt_s / own_s:.0f} times (asked: over {asked})"
    )


def large(folder: Path) -> None:
    packets = (1 << 30) // (PACKET_BYTES + 16)
    path = folder / "large.pcap"
    write_pcap(path, packets)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = ours(path, packets)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = os.path.getsize(path)
    print(
        f"1 GB    {packets / seconds / 1e6:6.1f} M packets/s, {size / seconds / 1e9:.2f} GB/s; memory at its peak grew by "
        f"{(after - before) / 1024:.0f} MB, to {after / 1024:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_pcap(folder / "a.pcap", PACKETS)
        write_pcapng(folder / "a.pcapng", PACKETS)
        compare("pcap", folder / "a.pcap", dpkt.pcap.Reader, 10)
        compare("pcapng", folder / "a.pcapng", dpkt.pcapng.Reader, 5)
        if options.large:
            large(folder)


if __name__ == "__main__":
    sys.exit(main())
