import bz2
import gzip
import lzma
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.frames import ethernet, ipv4, keys_by_dpkt, pcap, sctp, tcp, udp

import traces.capture_file
from models.flow import FIN, RST, make_batch
from traces.capture import CaptureError, CaptureSource, open_captures

A, B = 0x0A010203, 0xC0A80105
SECOND = 10**9


def packets(source, room=7):
    """Every packet of a source as (time, key, flags, length)."""
    batch = make_batch(room)
    found = []
    while count := source.fill(batch):
        assert count == batch.packets[0] <= room
        found += [
            (int(batch.time[i]), tuple(int(word) for word in batch.key[i]), int(batch.flags[i]), int(batch.length[i]))
            for i in range(count)
        ]
    return found


def read(tmp_path, content, room=7):
    path = tmp_path / "a.pcap"
    path.write_bytes(content)
    source = CaptureSource(path, strict=True)
    return packets(source, room), source


def refused(tmp_path, content):
    """The sentence with which a file is refused, without its folder."""
    with pytest.raises(CaptureError) as error:
        read(tmp_path, content)
    message = str(error.value)
    assert str(tmp_path) in message
    assert "\n" not in message
    return message.replace(f"{tmp_path}/", "")


ORDERS = pytest.mark.parametrize("order", "<>")
RESOLUTIONS = pytest.mark.parametrize("nano", [False, True])


@ORDERS
@RESOLUTIONS
def test_byte_orders_and_resolutions(tmp_path, order, nano):
    time = 1_700_000_000 * SECOND + 123_456_789
    content = pcap([(time, ethernet(ipv4(udp(1, 2), A, B))), (time + 1000, ethernet(ipv4(tcp(3, 4), B, A)))], order, nano)
    found, source = read(tmp_path, content)
    exact = time if nano else time // 1000 * 1000
    assert [packet[0] for packet in found] == [exact, exact + 1000]
    assert found[0][1] == (A, B, 1 << 16 | 2, 17 << 24 | 1)
    assert source.describe()["resolution"] == ("ns" if nano else "us")
    assert source.describe()["byte_order"] == ("big" if order == ">" else "little")


@st.composite
def frames(draw):
    port = st.integers(0, 65535)
    kind = draw(st.sampled_from(["udp", "tcp", "sctp", "icmp"]))
    ports = draw(port), draw(port)
    if kind == "tcp":
        proto, payload = 6, tcp(*ports, flags=draw(st.integers(0, 63)))
    elif kind == "icmp":
        proto, payload = 1, b"\x08\x00\x00\x00\x00\x01\x00\x01"
    else:
        proto, payload = (17, udp(*ports)) if kind == "udp" else (132, sctp(*ports))
    address = st.integers(0, 0xFFFFFFFF)
    packet = ipv4(
        payload,
        draw(address),
        draw(address),
        proto,
        draw(st.integers(0, 255)),
        offset=draw(st.sampled_from([0, 0, 0, 1, 0x1FFF])),
        more=draw(st.booleans()),
        options=draw(st.sampled_from([b"", b"\x01\x01\x01\x00", b"\x01" * 40])),
    )
    vlans = draw(st.sampled_from([(), (), (0x8100,), (0x88A8, 0x8100)]))
    if draw(st.integers(0, 5)) == 0:
        return ethernet(b"\x00" * 46, draw(st.sampled_from([0x0806, 0x86DD, 0x88CC, 46])))
    return ethernet(packet, vlans=vlans) + b"\x00" * draw(st.sampled_from([0, 6]))


@given(st.lists(frames(), max_size=12), st.sampled_from("<>"), st.booleans(), st.sampled_from([1, 3, 64]))
def test_agrees_with_dpkt(tmp_path_factory, content, order, nano, room):
    capture = pcap([(SECOND + i * 1001, frame) for i, frame in enumerate(content)], order, nano)
    found, source = read(tmp_path_factory.mktemp("dpkt"), capture, room)
    assert [packet[:3] for packet in found] == keys_by_dpkt(capture)
    assert len(found) + sum(source.skipped().values()) == len(content) == source.describe()["records"]


def test_udplite_has_ports_and_deep_vlan_stacks_are_followed(tmp_path):
    frame = ethernet(ipv4(udp(5, 6), A, B, proto=136), vlans=(0x9100, 0x88A8, 0x8100, 0x8100))
    assert read(tmp_path, pcap([(0, frame)]))[0][0][1] == (A, B, 5 << 16 | 6, 136 << 24 | 1)


def test_later_fragments_have_no_ports(tmp_path):
    first = ethernet(ipv4(udp(5, 6), A, B, more=True))
    later = ethernet(ipv4(udp(5, 6), A, B, offset=185))
    found, _ = read(tmp_path, pcap([(0, first), (0, later)]))
    assert [packet[1][2] for packet in found] == [5 << 16 | 6, 0]


def test_fin_and_rst_become_flags(tmp_path):
    tcp_flags = [0x10, 0x11, 0x04, 0x15]
    found, _ = read(tmp_path, pcap([(0, ethernet(ipv4(tcp(1, 2, flags), A, B, 6))) for flags in tcp_flags]))
    assert [packet[2] for packet in found] == [0, FIN, RST, FIN | RST]


def test_flags_are_not_read_from_bytes_that_were_not_captured(tmp_path):
    # 0x500 us: where the flags of the first packet would be, the next record's header has the bits of FIN and RST.
    found, _ = read(tmp_path, pcap([(0x500 * 1000, ethernet(ipv4(tcp(1, 2, 0x01), A, B, 6)))] * 2, snaplen=14 + 20 + 8))
    assert [packet[1:3] for packet in found] == [((A, B, 1 << 16 | 2, 6 << 24 | 1), 0)] * 2


def test_length_is_that_on_the_wire_not_that_captured(tmp_path):
    frame = ethernet(ipv4(udp(1, 2, b"x" * 1000), A, B))
    found, _ = read(tmp_path, pcap([(0, frame)], snaplen=60))
    assert found[0][3] == len(frame)


def test_interface_is_part_of_the_key(tmp_path):
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(0, ethernet(ipv4(udp(1, 2), A, B)))]))
    assert packets(CaptureSource(path, interface=7))[0][1][3] == 17 << 24 | 7
    with pytest.raises(ValueError, match="interface must be from 0 to 65535, got 65536"):
        CaptureSource(path, interface=65536)


def test_what_has_no_flow_key_is_counted_by_reason(tmp_path):
    good = ipv4(udp(1, 2), A, B)
    cases = {
        "arp": ethernet(b"\x00" * 28, 0x0806),
        "ipv6": ethernet(b"\x60" + b"\x00" * 60, 0x86DD, (0x8100,)),
        "other ethertype": ethernet(b"\x00" * 46, 0x88CC),
        "802.3 frame without ethertype": ethernet(b"\x42" * 46, 46),
        "frame cut off before the IP header": ethernet(b"", 0x0800)[:13],
        "IPv4 header cut off": ethernet(good[:19]),
        "bad IPv4 header": ethernet(b"\x65" + good[1:]),
        "ports cut off": ethernet(good[:23]),
    }
    for reason, frame in cases.items():
        found, source = read(tmp_path, pcap([(0, frame), (0, ethernet(good))]))
        assert source.skipped() == {reason: 1}, reason
        assert len(found) == 1


@pytest.mark.parametrize(
    ("reason", "frame"),
    [
        ("empty record", b""),
        ("frame cut off before the IP header", ethernet(b"\x00\x01", 0x8100)),
        ("frame cut off before the IP header", ethernet(b"\x00\x01\x08", 0x8100)),
        ("IPv4 header cut off", ethernet(b"")),
        ("IPv4 header cut off", ethernet(ipv4(b"", A, B, options=b"\x01" * 40)[:59])),
        ("bad IPv4 header", ethernet(b"\x44" + ipv4(b"", A, B)[1:])),
        ("bad IPv4 header", ethernet(ipv4(udp(1, 2), A, B, total=19))),
        ("ports cut off", ethernet(ipv4(udp(1, 2), A, B, total=23))),
    ],
)
def test_frames_at_the_edge_of_each_reason(tmp_path, reason, frame):
    found, source = read(tmp_path, pcap([(0, frame)]))
    assert found == []
    assert source.skipped() == {reason: 1}


def test_length_zero_of_a_large_send_counts_as_whole(tmp_path):
    found, _ = read(tmp_path, pcap([(0, ethernet(ipv4(udp(1, 2), A, B, total=0)))]))
    assert found[0][1][2] == 1 << 16 | 2


def test_time_that_goes_back_is_held_and_counted(tmp_path):
    frame = ethernet(ipv4(udp(1, 2), A, B))
    found, source = read(tmp_path, pcap([(t * SECOND, frame) for t in (5, 3, 4, 6)]))
    assert [packet[0] for packet in found] == [5 * SECOND, 5 * SECOND, 5 * SECOND, 6 * SECOND]
    assert source.describe()["time_went_back"] == 2
    assert source.describe()["packets"] == 4


@pytest.mark.parametrize("block", [64, 97, 150, 4096])
@pytest.mark.parametrize("room", [1, 5, 64])
def test_records_split_across_blocks(tmp_path, monkeypatch, block, room):
    monkeypatch.setattr(traces.capture_file, "BLOCK_BYTES", block)
    rng = np.random.default_rng(block)
    sizes = rng.integers(0, 64 - 16 - 42, 40)
    capture = pcap([(i * 1000, ethernet(ipv4(udp(i, 2, bytes(size)), A, B))) for i, size in enumerate(sizes)], snaplen=block - 16)
    found, _ = read(tmp_path, capture, room)
    assert [packet[:3] for packet in found] == keys_by_dpkt(capture)
    assert CaptureSource(tmp_path / "a.pcap").fill(make_batch(room)) == min(room, 40), "only the end of the file cuts a batch short"


def test_captures_merge_by_time_each_with_its_interface(tmp_path):
    frame = ethernet(ipv4(udp(1, 2), A, B))
    for name, times in (("a", [1, 4, 5]), ("b", [2, 4, 9])):
        (tmp_path / name).write_bytes(pcap([(time * SECOND, frame) for time in times]))
    found = packets(open_captures([tmp_path / "a", tmp_path / "b"]))
    assert [(packet[0] // SECOND, packet[1][3] & 0xFFFF) for packet in found] == [(1, 1), (2, 2), (4, 1), (4, 2), (5, 1), (9, 2)]
    assert len(packets(open_captures([tmp_path / "b"]))) == 3


def test_a_capture_without_packets_ends_at_once(tmp_path):
    assert read(tmp_path, pcap([]))[0] == []


# -- files that cannot be read -------------------------------------------------------------------------------------------


def test_empty_file(tmp_path):
    assert refused(tmp_path, b"").startswith("a.pcap is empty; capture again")


def test_foreign_file(tmp_path):
    message = refused(tmp_path, b"#!/bin/sh\n" + b"x" * 50)
    said = (
        "a.pcap is not a capture: it begins with bytes 23 21 2f 62; "
        "give a pcap or pcapng file, as 'tcpdump -w' or Wireshark writes it"
    )
    assert message == said


@ORDERS
@pytest.mark.parametrize("size", [4, 23])
def test_truncated_file_header(tmp_path, order, size):
    message = refused(tmp_path, pcap([], order)[:size])
    assert message == f"a.pcap is cut off at byte {size}, within the file header of 24; copy the file again"


@pytest.mark.parametrize("cut", [1, 15, 16, 40, 16 + 45])
def test_file_that_ends_inside_a_record(tmp_path, cut):
    frame = ethernet(ipv4(udp(1, 2), A, B))
    content = pcap([(0, frame)] * 3)[: 24 + 2 * (16 + len(frame)) + cut]
    path = tmp_path / "a.pcap"
    path.write_bytes(content)
    source, batch = CaptureSource(path, strict=True), make_batch(10)
    assert source.fill(batch) == 2, "the packets before the damage are handed out first"
    for _ in range(2):
        with pytest.raises(CaptureError) as error:
            source.fill(batch)
    said = (
        f"{path}: record 3, at byte {24 + 2 * (16 + len(frame))}, is cut off, the file ends after {cut} bytes of it; "
        f"copy the file again, or keep what is before it with 'editcap -r {path} NEW.pcap 1-2'"
    )
    assert str(error.value) == said
    tolerant = CaptureSource(path)
    assert [tolerant.fill(batch) for _ in range(3)] == [2, 0, 0]
    assert tolerant.describe()["damage"] == [said]


@ORDERS
def test_captured_length_beyond_bounds(tmp_path, order):
    frame = ethernet(ipv4(udp(1, 2), A, B))
    content = pcap([(0, frame)], order) + struct.pack(order + "IIII", 1, 0, 262145, 60) + b"x" * 100
    message = refused(tmp_path, content)
    assert f"record 2, at byte {24 + 16 + len(frame)}, says it holds 262145 bytes, more than the 262144 that" in message
    assert "NEW.pcap 1-1'" in message


def test_first_record_damaged_suggests_no_empty_range(tmp_path):
    message = refused(tmp_path, pcap([]) + b"\x00" * 7)
    assert message == "a.pcap: record 1, at byte 24, is cut off, the file ends after 7 bytes of it; copy the file again"


def test_a_larger_snap_length_is_believed(tmp_path):
    frame = ethernet(ipv4(udp(1, 2), A, B)) + bytes(300_000)
    assert len(read(tmp_path, pcap([(0, frame)], snaplen=400_000))[0]) == 1


@pytest.mark.parametrize(("link", "name"), [(284, "DSA_TAG_DSA"), (105, "IEEE802_11"), (299, "a name not known here")])
def test_other_link_types(tmp_path, link, name):
    assert f"a.pcap has link type {link} ({name}), which holds no IP packets or is not read" in refused(
        tmp_path, pcap([], link=link)
    )


def test_other_format_version(tmp_path):
    assert "a.pcap has pcap format 2.2, this version reads 2.4; run 'editcap -F pcap" in refused(tmp_path, pcap([], minor=2))


PACKERS = {"gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress}


@pytest.mark.parametrize("name", PACKERS)
def test_packed_captures_are_read(tmp_path, name):
    content = pcap([(i * 1000, ethernet(ipv4(udp(i, 2), A, B))) for i in range(50)])
    found, _ = read(tmp_path, PACKERS[name](content))
    assert [packet[:3] for packet in found] == keys_by_dpkt(content)


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("cut", [12, 3])
def test_packing_that_is_damaged_is_damage(tmp_path, name, cut):
    """Whatever can be unpacked is read, and that it is not all is said."""
    rng = np.random.default_rng(1)
    content = pcap([(i * 1000, ethernet(ipv4(udp(1, 2, rng.bytes(900)), A, B))) for i in range(300)])
    path = tmp_path / "a.pcap"
    path.write_bytes(PACKERS[name](content)[:-cut])
    if (name, cut) == ("bzip2", 12):  # unpacks whole blocks of 900 kB
        assert "a.pcap cannot be unpacked" in refused(tmp_path, path.read_bytes())
        return
    source = CaptureSource(path)
    found = packets(source)
    assert found == packets(CaptureSource(path))
    assert 200 < len(found) <= 300
    (damage,) = source.describe()["damage"]
    assert f"record {len(found) + 1}, at byte " in damage
    with pytest.raises(CaptureError, match=r"cannot be unpacked whole: the packing is damaged"):
        packets(CaptureSource(path, strict=True))


def test_zstd_says_how_to_unpack(tmp_path):
    assert "a.pcap is compressed with zstd, which is not read; run 'zstd -d" in refused(tmp_path, b"\x28\xb5\x2f\xfd" + bytes(40))


def test_packed_rubbish_is_no_capture(tmp_path):
    for start in (b"\xfd7zXZ\x00", b"BZh9", b"\x1f\x8b\x08\x00"):
        assert "a.pcap cannot be unpacked: its packing is damaged or cut off" in refused(tmp_path, start + bytes(40))


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(CaptureError, match=r"there is no file .*none\.pcap; check the name"):
        CaptureSource(tmp_path / "none.pcap")
    with pytest.raises(CaptureError, match=r"is a directory; give the captures in it, for example .*\*\.pcap"):
        CaptureSource(tmp_path)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(13, "Permission denied"), "may not be read; change its permissions"),
        (OSError(5, "Input/output error"), "cannot be"),
    ],
)
def test_no_permission(tmp_path, monkeypatch, error, sentence):
    def refuse(*_, **__):
        raise error

    # Tests may run as root, whom no permission stops.
    monkeypatch.setattr("traces.content.open", refuse, raising=False)
    with pytest.raises(CaptureError, match=sentence):
        CaptureSource(tmp_path / "a.pcap")
