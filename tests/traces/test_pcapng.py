"""pcapng: files put together block by block, ordinary ones against dpkt, damage, and mutations of both capture formats."""

import io
import random

import dpkt
import numpy as np
import pytest
from oracles.frames import block, enhanced, ethernet, interface, ipv4, ipv6, old_packet, pcap, section, simple, udp

import traces.capture_file
from models.flow import make_batch
from models.kernel import compiled
from traces.capture import CaptureError, CaptureSource, open_capture, open_captures
from traces.pcapng import PcapngSource, to_ns

A, B = 0x0A010203, 0xC0A80105
SECOND = 10**9


def frame(i=1):
    return ethernet(ipv4(udp(i, 53), A, B))


def read(tmp_path, content, room=7, **options):
    path = tmp_path / "a.pcapng"
    path.write_bytes(content)
    source = open_capture(path, strict=True, **options)
    batch, found = make_batch(room, 4 if options.get("family", 4) == 4 else 10), []
    while count := source.fill(batch):
        found += [(int(batch.time[i]), tuple(batch.key[i].tolist()), int(batch.length[i])) for i in range(count)]
    return found, source


def key(i=1, iif=1):
    return (A, B, i << 16 | 53, 17 << 24 | iif)


@pytest.mark.parametrize("order", "<>")
def test_packets_of_every_block_kind(tmp_path, order):
    content = (
        section(order)
        + interface(order)
        + enhanced(5_000_000, frame(1), order, length=999)
        + simple(frame(2), order)
        + old_packet(6_000_000, frame(3), order)
        + block(order, 5, b"statistics")
        + block(order, 0xBAD, b"x" * 33)
        + enhanced(7_000_000, frame(4), order)
    )
    found, source = read(tmp_path, content)
    size = len(frame())
    expected = [(5, 1, 999), (5, 2, size), (6, 3, size), (7, 4, size)]
    assert found == [(second * SECOND, key(i), length) for second, i, length in expected]
    assert isinstance(source, PcapngSource)
    assert source.describe()["records"] == 4
    assert (source.describe()["format"], source.describe()["sections"], source.describe()["link_types"]) == ("pcapng", 1, [1])


def test_twins_of_both_byte_orders_give_the_same_packets(tmp_path):
    def twin(order):
        return (
            section(order)
            + interface(order, 101)
            + interface(order)
            + enhanced(9, frame(), order, 1)
            + old_packet(10, frame(2), order, 1)
        )

    one, _ = read(tmp_path, twin("<"))
    two, _ = read(tmp_path, twin(">"))
    assert one == two
    assert len(one) == 2


def test_sections_have_their_own_order_and_interfaces(tmp_path):
    content = b"".join(
        section(order) + interface(order, link) + enhanced(i * 10**6, packet, order)
        for i, (order, link, packet) in enumerate([("<", 1, frame()), (">", 101, frame()[14:]), ("<", 1, frame())])
    )
    found, source = read(tmp_path, content)
    assert [packet[1] for packet in found] == [key()] * 3
    assert source.describe()["sections"] == 3
    assert source.describe()["link_types"] == [1, 101]


def test_each_interface_has_its_clock_link_type_and_number(tmp_path):
    content = (
        section()
        + interface(resolution=9)
        + interface(link=101, resolution=3, offset=100)
        + interface(resolution=0x80 | 10)
        + interface(link=284)
        + enhanced(1_500_000_001, frame(1))
        + enhanced(2_001, frame(2)[14:], which=1)
        + enhanced(200 << 10 | 512, frame(3), which=2)
        + enhanced(0, frame(4), which=3)
    )
    found, source = read(tmp_path, content)
    assert [packet[0] for packet in found] == [1_500_000_001, 102_001_000_000, 200_500_000_000]
    assert [packet[1] for packet in found] == [key(1, 1), key(2, 2), key(3, 3)]
    assert source.skipped() == {"of a link type that is not read": 1}


@pytest.mark.parametrize("resolution", [0, 3, 6, 9, 12, 18, 0x80, 0x80 | 10, 0x80 | 30, 0x80 | 33, 0x80 | 62])
def test_times_of_any_unit(resolution):
    draw = random.Random(resolution)
    per_second = 1 << (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    for _ in range(300):
        units = draw.randrange(min(1 << 63, 4_000_000_000 * per_second))
        exact = units * SECOND // per_second
        found = int(to_ns(units >> 32, units & 0xFFFFFFFF, -(resolution & 0x7F) if resolution & 0x80 else resolution, 7))
        assert abs(found - exact - 7 * SECOND) <= 1, units


def test_times_beyond_all_bounds_are_held():
    assert int(to_ns(0xFFFFFFFF, 0xFFFFFFFF, 6, 0)) == 1 << 62
    assert int(to_ns(1 << 30, 0, 0, 0)) == 1 << 62
    assert int(to_ns(0, 5, 0, -9)) == 0
    for resolution in range(-127, 128):
        assert 0 <= int(to_ns((1 << 31) - 1, 0xFFFFFFFF, resolution, 0)) <= 1 << 62


def test_snapped_simple_packets(tmp_path):
    whole = frame()
    found, _ = read(tmp_path, section() + interface(snaplen=len(whole)) + simple(whole + b"1234", length=500))
    assert found == [(0, key(), 500)]


def test_ipv6(tmp_path):
    packet = ethernet(ipv6(udp(1, 53), 1, 2), 0x86DD)
    found, source = read(tmp_path, section() + interface() + enhanced(0, packet) + enhanced(0, frame()), family=6)
    assert found[0][1] == (0, 0, 0, 1, 0, 0, 0, 2, 1 << 16 | 53, 17 << 24 | 1)
    assert source.skipped() == {"ipv4": 1}


def test_agrees_with_dpkt(tmp_path):
    buffer = io.BytesIO()
    writer = dpkt.pcapng.Writer(buffer)
    for i in range(300):
        writer.writepkt(frame(i), ts=i / 8)
    content = buffer.getvalue()
    found, _ = read(tmp_path, content, 64)
    expected = [
        (round(ts * 10**6) * 1000, key(i), len(data)) for i, (ts, data) in enumerate(dpkt.pcapng.Reader(io.BytesIO(content)))
    ]
    assert found == expected


@pytest.mark.parametrize("size", [256, 300, 4096])
def test_blocks_split_across_reads(tmp_path, monkeypatch, size):
    monkeypatch.setattr(traces.capture_file, "BLOCK_BYTES", size)
    content = section(options=bytes(100)) + interface(resolution=9)
    content += b"".join(enhanced(i, frame(i)) + block("<", 4, bytes(i % 90)) for i in range(60))
    content += section(">") + interface(">") + b"".join(enhanced(i, frame(i), ">") for i in range(30))
    found, _ = read(tmp_path, content, 11)
    assert [packet[1][2] >> 16 for packet in found] == [*range(60), *range(30)]


@pytest.mark.parametrize("order", "<>")
def test_long_blocks_of_a_kind_that_is_skipped_are_read_over(tmp_path, monkeypatch, order):
    monkeypatch.setattr(traces.capture_file, "BLOCK_BYTES", 512)
    begin = section(order) + interface(order)
    long = block(order, 0xBAD, bytes(2000))
    for body in (0, 400, 497, 500, 501, 505, 1024, 5000):
        content = begin + enhanced(1, frame(1), order) + block(order, 4, bytes(body)) + enhanced(2, frame(2), order) + long
        found, source = read(tmp_path, content + enhanced(3, frame(3), order))
        assert [packet[1] for packet in found] == [key(1), key(2), key(3)]
        assert source.describe()["damage"] == []
    content = begin + enhanced(1, frame(1), order)
    said, packets = damaged(tmp_path, content + long[:-1])
    assert said.startswith(
        f"a.pcapng: record 2, at byte {len(content)}, is cut off, the file ends after {len(long) - 1} bytes of it"
    )
    assert packets == 1
    said, _ = damaged(tmp_path, content + long[:-4] + bytes(4) + NEXT)
    assert f"record 2, at byte {len(content)}, is a block that says it has {len(long)} bytes and does not end so" in said


def damaged(tmp_path, content):
    """The sentence of the damage, without the file's folder, and the packets before it."""
    path = tmp_path / "a.pcapng"
    path.write_bytes(content)
    source, batch = open_capture(path), make_batch(100)
    packets = source.fill(batch)
    assert source.fill(batch) == 0
    (said,) = source.describe()["damage"]
    strict = open_capture(path, strict=True)
    if packets:
        assert strict.fill(batch) == packets
    with pytest.raises(CaptureError) as error:
        strict.fill(batch)
    assert str(error.value) == said
    return said.replace(f"{tmp_path}/", ""), packets


GOOD = section() + interface() + enhanced(0, frame())
AT = f"record 2, at byte {len(GOOD)}, "
NEXT = enhanced(1, frame(2))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD + NEXT[:-1], f"{AT}is cut off, the file ends after {len(NEXT) - 1} bytes of it"),
        (GOOD + b"123", f"{AT}is cut off, the file ends after 3 bytes of it"),
        (GOOD + NEXT[:-4] + bytes(4), "and does not end so"),
        (GOOD + NEXT[:4] + b"\x0a\0\0\0" + NEXT[8:], "is a block that says it has 10 bytes"),
        (GOOD + NEXT[:4] + b"\xfc\xff\xff\x7f" + NEXT[8:], "more than the 4194304 that are read at once"),
        (GOOD + NEXT[:20] + b"\xff\xff\0\0" + NEXT[24:], f"says it holds more than its block of {len(NEXT)} bytes"),
        (GOOD + block("<", 6, bytes(16)), "says it holds more than its block of 28 bytes"),
        (GOOD + enhanced(0, frame(), which=1), "names an interface that its section does not describe (it describes 1)"),
        (GOOD + section()[:8] + b"abcd" + section()[12:], "whose byte order cannot be told (61 62 63 64)"),
        (GOOD + section()[:12] + b"\2\0" + section()[14:], "is a section of pcapng format 2, and 1 is read"),
        (GOOD + section()[:-4] + bytes(4), "is a section header that says it has 28 bytes and does not end so"),
        (GOOD + section(options=bytes(64))[:50], "is cut off, the file ends after 50 bytes of it"),
        (GOOD + block("<", 1, b"\1\0\0\0"), "is an interface description of 16 bytes"),
        (GOOD + block("<", 1, b"\1\0\0\0\0\0\0\0\x09\0\xff\0"), "whose option 9 is longer than the block"),
    ],
)
def test_damage_is_named_with_its_place(tmp_path, content, said):
    found, packets = damaged(tmp_path, content)
    assert found.startswith(f"a.pcapng: {AT}")
    assert said in found
    assert packets == 1


def test_too_many_interfaces(tmp_path):
    said, packets = damaged(tmp_path, section() + interface() * 1025)
    assert "describes interface 1025 of its section" in said
    assert packets == 0


def test_both_formats_merge_by_time(tmp_path):
    (tmp_path / "a.pcapng").write_bytes(section() + interface() + enhanced(2, frame(1)) + enhanced(4, frame(2)))
    (tmp_path / "b.pcap").write_bytes(pcap([(3000, frame(3))]))
    source, batch = open_captures([tmp_path / "a.pcapng", tmp_path / "b.pcap"]), make_batch(5)
    assert source.fill(batch) == 3
    assert (batch.key[:3, 2] >> 16).tolist() == [1, 3, 2]


def mutate(draw, content):
    """A few bytes changed, sometimes a piece cut out or doubled."""
    data = bytearray(content)
    for _ in range(draw.randrange(1, 5)):
        at = draw.randrange(len(data))
        data[at] = draw.choice((0, 1, 4, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    if draw.random() < 0.3:
        a, b = sorted(draw.choices(range(len(data)), k=2))
        data[a:b] = b"" if draw.random() < 0.5 else data[a:b] * 2
    return bytes(data)


def survive(tmp_path, draw, rounds):
    """Every mutated file is read to an end or refused in one sentence, by one batch after the other; how many were read."""
    seeds = [
        pcap([(i, frame(i)) for i in range(5)], order, nano, link=link)
        for order in "<>"
        for nano in (False, True)
        for link in (1, 113)
    ]
    for order in "<>":
        first = section(order) + interface(order, resolution=9) + interface(order, 101) + enhanced(1, frame(), order)
        rest = simple(frame(), order) + old_packet(2, frame()[14:], order, 1)
        seeds.append(first + rest + section("<") + interface() + enhanced(3, frame()))
    path, good = tmp_path / "m.pcap", 0
    batches = {4: make_batch(3), 6: make_batch(3, 10)}
    for _ in range(rounds):
        path.write_bytes(mutate(draw, draw.choice(seeds)))
        family = draw.choice((4, 6))
        try:
            source = open_capture(path, family=family, inner=draw.random() < 0.5, strict=draw.random() < 0.5)
            last = 0
            for _ in range(100):
                count = source.fill(batches[family])
                times = batches[family].time[:count]
                assert count == 0 or (times[0] >= last and (np.diff(times) >= 0).all())
                last = int(times[-1]) if count else last
                if count == 0:
                    break
            else:
                raise AssertionError("the file never ends")
            good += 1
        except CaptureError as error:
            said = str(error)
            if str(path) not in said or "\n" in said:
                raise
    return good


def test_damaged_files_are_read_or_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(traces.capture_file, "BLOCK_BYTES", 1 << 12)
    rounds = 3000 if compiled() else 1000
    assert survive(tmp_path, random.Random(1), rounds) > rounds // 4


@pytest.mark.slow
def test_a_million_damaged_files(tmp_path, monkeypatch):
    monkeypatch.setattr(traces.capture_file, "BLOCK_BYTES", 1 << 12)
    assert survive(tmp_path, random.Random(2), 1_000_000) > 250_000


def test_a_classic_capture_is_no_pcapng(tmp_path):
    (tmp_path / "a").write_bytes(pcap([(0, frame())]))
    assert isinstance(open_capture(tmp_path / "a"), CaptureSource)
