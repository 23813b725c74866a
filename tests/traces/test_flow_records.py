"""Flow records of every kind against records parsed the obvious way."""

import gzip
import json
import random
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from models.flow import pack_ipv4
from traces.flow_fields import PROTOCOLS
from traces.flow_records import FlowRecordError, read_flow_records
from traces.flow_times import Clock, decimal_ns

OLD = (
    "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,in,out,sas,das,smk,dmk,dtos,dir,nh,nhb,svln,dvln,ismc,odmc,idmc,osmc,"
    "mpls1,mpls2,mpls3,mpls4,mpls5,mpls6,mpls7,mpls8,mpls9,mpls10,cl,sl,al,ra,eng,exid,tr"
)
NEW = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows"
FIELDS = (
    "ts uid id.orig_h id.orig_p id.resp_h id.resp_p proto service duration orig_bytes resp_bytes "
    "orig_pkts orig_ip_bytes resp_pkts resp_ip_bytes"
)
T0 = 1_719_616_661_000_000_000  # 2024-06-28 23:17:41 UTC


def write(path, *lines):
    path.write_text("".join(line + "\n" for line in lines))
    return path


def zeek(path, *rows, separator="\t", unset="-", fields=FIELDS):
    sep = separator
    head = [
        f"#separator \\x{ord(sep):02x}",
        f"#set_separator{sep},",
        f"#empty_field{sep}(empty)",
        f"#unset_field{sep}{unset}",
        f"#path{sep}conn",
        f"#open{sep}2024-06-28-23-17-41",
        "#fields" + sep + sep.join(fields.split()),
        "#types" + sep + sep.join("string" for _ in fields.split()),
    ]
    return write(path, *head, *(sep.join(row.split()) for row in rows), f"#close{sep}2024-06-28-23-59-59")


def flows(found):
    columns = (found.start, found.duration, found.key, found.packets, found.bytes)
    return [(int(s), int(d), tuple(map(int, k)), int(p), int(b)) for s, d, k, p, b in zip(*columns, strict=True)]


def address(text):
    return int.from_bytes(bytes(map(int, text.split("."))), "big")


def key(source, sport, destination, dport, proto, tos=0, interface=1):
    return pack_ipv4(address(source), address(destination), sport, dport, proto, tos, interface)


def test_nfdump_old_columns(tmp_path):
    tail = ",435,471,21859,0,22,27,0,0,10.10.16.154,0.0.0.0,0,323" + ",00:00:00:00:00:00" * 4 + ",0-0-0" * 10 + ",0.000" * 3
    tail += ",10.1.1.1,0/0,1,2024-06-28 23:59:44.000"
    path = write(
        tmp_path / "old.csv",
        OLD,
        "2024-06-28 23:17:41,2024-06-28 23:17:44,3.000,128.14.118.163,38.250.154.56,443,10693,UDP,........,66,24,9,11214,2,180"
        + tail,
        "2024-06-28 23:17:40,2024-06-28 23:17:40,0.000,10.0.0.1,10.0.0.2,0,8.0,ICMP,........,0,0,1,84,0,0" + tail,
        "2024-06-28 23:17:40,2024-06-28 23:17:40,0.000,2001:db8::1,2001:db8::2,0,0,ICMP6,........,0,0,1,84,0,0" + tail,
        "Summary",
        "flows,bytes,packets,avg_bps,avg_pps,avg_bpp",
        "3,1,2,3,4,5",
    )
    found = read_flow_records(path)
    assert found.form == "nfdump"
    assert flows(found) == [
        (T0 - 10**9, 0, key("10.0.0.1", 0, "10.0.0.2", 0, 1), 1, 84),
        (T0, 3 * 10**9, key("128.14.118.163", 443, "38.250.154.56", 10693, 17, 24), 9, 11214),
        (T0, 3 * 10**9, key("38.250.154.56", 10693, "128.14.118.163", 443, 17, 24), 2, 180),
    ]
    assert found.records == 3
    assert found.left_out == {"IPv6 addresses": 1}
    six = read_flow_records(path, family=6, interface=7)
    assert six.left_out == {"IPv4 addresses": 2}
    assert flows(six)[0][2] == (0x20010DB8, 0, 0, 1, 0x20010DB8, 0, 0, 2, 0, (58 << 24) | 7)


def test_nfdump_new_columns(tmp_path):
    path = write(
        tmp_path / "new.csv",
        NEW,
        "2024-06-28 23:17:41.250,00:00:04.096,TCP,10.0.0.1,1234,10.0.0.2,80,10,1000,1",
        "2024-06-28 23:17:41.125,1.500,47,  10.0.0.1,7,  10.0.0.2,8,     3,  300,1",
        "2024-06-28 23:17:41.125,1.500,TCP,10.0.0.1,5,10.0.0.2,6,0,0,1",
        "2024-06-28 23:17:41.125,1.500,Smurf,10.0.0.1,5,10.0.0.2,6,1,60,1",
        "2024-06-28 23:17:41.125,-1.500,TCP,10.0.0.1,5,10.0.0.2,6,1,60,1",
        "2024-06-28 23:17:42,1,udp,10.0.0.1,5,10.0.0.2,6,1,65536,1",
    )
    found = read_flow_records(path)
    assert flows(found) == [
        (T0 + 125_000_000, 1_500_000_000, key("10.0.0.1", 0, "10.0.0.2", 0, 47), 3, 300),
        (T0 + 250_000_000, 4_096_000_000, key("10.0.0.1", 1234, "10.0.0.2", 80, 6), 10, 1000),
        (T0 + 10**9, 10**9, key("10.0.0.1", 5, "10.0.0.2", 6, 17), 1, 65535),
    ]
    assert found.left_out == {"no packets": 1, "unknown protocol name": 1, "ends before it starts": 1}
    assert found.changed == {"more than 65,535 bytes a packet, cut to that": 1}


ROWS = (
    "1300475167.096535 CX 10.0.0.1 5353 10.0.0.9 5353 udp dns 2.012345 75 - 3 159 0 0",
    "1300475166.000001 CY 10.0.0.1 80 10.0.0.9 9 tcp - - - - 1 40 2 120",
    "1300475168.5 CZ fe80::1 3 ff02::1 4 icmp - - - - 1 72 0 0",
    "1300475168.5 CZ 10.0.0.1 8 10.0.0.9 0 icmp - 1 - - - - - -",
    "1300475169.5 CZ 10.0.0.1 8 10.0.0.9 0 unknown_transport - 1 - - 1 40 0 0",
)
WANTED = [
    (1300475166_000001000, 0, key("10.0.0.1", 80, "10.0.0.9", 9, 6), 1, 40),
    (1300475166_000001000, 0, key("10.0.0.9", 9, "10.0.0.1", 80, 6), 2, 120),
    (1300475167_096535000, 2_012_345_000, key("10.0.0.1", 5353, "10.0.0.9", 5353, 17), 3, 159),
]
LEFT_OUT = {"IPv6 addresses": 1, "no packets": 1, "unknown protocol name": 1}


@pytest.mark.parametrize(("separator", "unset"), [("\t", "-"), ("|", "-"), ("\t", "NONE")])
def test_zeek_tsv(tmp_path, separator, unset):
    rows = [" ".join(unset if word == "-" else word for word in row.split()) for row in ROWS]
    found = read_flow_records(zeek(tmp_path / "conn.log", *rows, separator=separator, unset=unset))
    assert found.form == "zeek tsv"
    assert flows(found) == WANTED
    assert found.left_out == LEFT_OUT
    assert found.changed == {"duration not known, taken as 0": 1}
    assert found.records == len(ROWS)


def test_zeek_json(tmp_path):
    names = FIELDS.split()
    lines = []
    for row in ROWS:
        pairs = []
        for name, word in zip(names, row.split(), strict=True):
            if word != "-":
                text = name in ("uid", "id.orig_h", "id.resp_h", "proto", "service")
                pairs.append(f"{json.dumps(name)}:{json.dumps(word) if text else word}")
        lines.append("{" + ",".join(pairs) + "}")
    lines[1] = lines[1].replace("1300475166.000001", '"2011-03-18T19:06:06.000001Z"')
    found = read_flow_records(write(tmp_path / "conn.json", *lines))
    assert found.form == "zeek json"
    assert flows(found) == WANTED
    assert found.left_out == LEFT_OUT


def test_zeek_logs_put_together(tmp_path):
    one = zeek(tmp_path / "1", ROWS[0])
    fields = "id.orig_h id.resp_h id.orig_p id.resp_p proto ts orig_pkts resp_pkts orig_ip_bytes resp_ip_bytes"
    two = zeek(tmp_path / "2", "10.0.0.1 10.0.0.9 80 9 tcp 1300475166.000001 1 2 40 120", fields=fields)
    path = tmp_path / "both.log.gz"
    path.write_bytes(gzip.compress(one.read_bytes() + two.read_bytes()))
    assert flows(read_flow_records(path)) == WANTED


TABLE = {"start": "first", "end": "last", "source": "from", "destination": "to", "protocol": "ip proto", "packets": "n"}


def test_any_table_by_its_columns(tmp_path):
    path = write(
        tmp_path / "t.csv",
        "#from;to;ip proto;first;last;n;note",
        '10.0.0.1;10.0.0.2;6;1719616661250;1719616661750;2;"a; b"',
        "10.0.0.1;10.0.0.2;tcp;1719616661000;1719616660000;2;",
    )
    found = read_flow_records(path, columns=TABLE, time_unit="ms", delimiter=";")
    assert flows(found) == [(T0 + 250_000_000, 500_000_000, key("10.0.0.1", 0, "10.0.0.2", 0, 6), 2, 92)]
    assert found.left_out == {"ends before it starts": 1}
    path = write(tmp_path / "d.csv", "t,d,a,b,p,n", "1719616661.000000001,250,10.0.0.1,10.0.0.2,6,1")
    named = {"start": "t", "duration": "d", "source": "a", "destination": "b", "protocol": "p", "packets": "n"}
    assert flows(read_flow_records(path, columns=named, duration_unit="us"))[0][:2] == (T0 + 1, 250_000)


@pytest.mark.parametrize(
    ("lines", "settings", "sentence"),
    [
        ([], {}, "is empty; give nfdump's"),
        (["a,b,c"], {}, "neither nfdump's CSV nor Zeek's conn.log; for another table name its columns, for example start="),
        ([NEW, "1,2,3"], {}, "line 2: has 3 values where the head of the table names 10"),
        ([NEW, "", "2024-06-28 23:17:41,1,TCP,10.0.0.1,5,10.0.0,6,1,60,1"], {}, "line 3: '10.0.0' is not an IP address"),
        ([NEW, "2024-06-28 23:17:41,1,TCP,10.0.0.1,65536,10.0.0.1,6,1,60,1"], {}, "line 2: the port '65536' is not"),
        ([NEW, "2024-06-28 23:17:41,1,TCP,10.0.0.1,1.0,10.0.0.1,6,1,60,1"], {}, "line 2: the port '1.0' is not"),
        ([NEW, "2024-06-31 23:17:41,1,TCP,10.0.0.1,5,10.0.0.1,6,1,60,1"], {}, "line 2: '2024-06-31 23:17:41' is not a time"),
        ([NEW, "yesterday,1,TCP,10.0.0.1,5,10.0.0.1,6,1,60,1"], {}, "line 2: 'yesterday' is not a time"),
        ([NEW, "9e99,1,TCP,10.0.0.1,5,10.0.0.1,6,1,60,1"], {}, "line 2: '9e99' is not a time"),
        ([NEW, "9e12,1,TCP,10.0.0.1,5,10.0.0.1,6,1,60,1"], {}, "line 2: the time '9e12' is not between 1970 and 2116; is the unit"),
        ([NEW, "1,9e12,TCP,10.0.0.1,5,10.0.0.1,6,1,60,1"], {}, "line 2: the duration '9e12' is more than 146 years"),
        ([NEW, "1,1,256,10.0.0.1,5,10.0.0.1,6,1,60,1"], {}, "line 2: '256' is not an IP protocol"),
        ([NEW, "1,1,6,10.0.0.1,5,10.0.0.1,6,-1,60,1"], {}, "line 2: the number of packets '-1' is not a whole number"),
        ([NEW, "1,1,6,10.0.0.1,5,10.0.0.1,6,1,1e3,1"], {}, "line 2: the number of bytes '1e3' is not a whole number"),
        ([NEW, "1,1,6,10.0.0.1,5,10.0.0.1,6," + "9" * 30 + ",60,1"], {}, "line 2: the number of packets '9999"),
        ([NEW, '1,1,6,"10.0.0.1,5,10.0.0.1,6,1,60,1'], {}, "line 2: the values cannot be told apart"),
        (["a,b"], {"columns": {"start": "c"}}, "has no column 'c'; its columns are a, b"),
        (["a,b"], {"columns": {"begin": "a"}}, "there is no field 'begin' of a flow record; the fields are start, duration"),
        (["a,b"], {"columns": {"start": "a"}}, "needs a column for 'source'; name it, for example source=COLUMN"),
        (["#separator \\x09", "#path\tdns"], {}, "line 2: this is Zeek's log 'dns', flow records are in conn.log"),
        (["#separator \\x09", "#fields\tts\tuid"], {}, "line 2: this log has no field 'id.orig_h'"),
        (["#separator \\x09", "1\t2"], {}, "line 2: comes before the '#fields' line"),
        (['{"ts":1}', "{"], {}, "line 1: is not a line of conn.log in JSON: Object missing required field"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(tmp_path, lines, settings, sentence):
    path = write(tmp_path / "f.csv", *lines)
    with pytest.raises(FlowRecordError) as caught:
        read_flow_records(path, **settings)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_bad_files_and_settings(tmp_path):
    with pytest.raises(FlowRecordError, match="there is no file"):
        read_flow_records(tmp_path / "none")
    (tmp_path / "b").write_bytes(b"ts,te\n\xff\xfe\n")
    with pytest.raises(FlowRecordError, match="line 2, is not text"):
        read_flow_records(tmp_path / "b")
    (tmp_path / "c").write_bytes(gzip.compress(b"ts,te\n" * 1000)[:-9])
    with pytest.raises(FlowRecordError, match="is damaged: it cannot be unpacked"):
        read_flow_records(tmp_path / "c", columns=TABLE | dict.fromkeys(TABLE, "ts"))
    (tmp_path / "l").write_bytes(b"a" * (1 << 21))
    with pytest.raises(FlowRecordError, match="line 1, is longer than 65536 bytes"):
        read_flow_records(tmp_path / "l")
    path = write(tmp_path / "x", NEW)
    for settings, sentence in (
        ({"family": 5}, "family 4 or 6"),
        ({"interface": 1 << 16}, "interface must be"),
        ({"time_unit": "h"}, "unit of time is one of"),
        ({"delimiter": "::"}, "one character"),
    ):
        with pytest.raises(ValueError, match=sentence):
            read_flow_records(path, **settings)
    assert read_flow_records(path).start.size == 0


def test_standard_input():
    code = "from traces.flow_records import read_flow_records as r; f = r('-'); print(f.form, f.records, f.start.tolist())"
    text = gzip.compress((NEW + "\n2024-06-28 23:17:41,1,TCP,10.0.0.1,5,10.0.0.1,6,1,60,1\n").encode())
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, cwd=root, check=True)
    assert done.stdout.decode().split() == ["nfdump", "1", f"[{T0}]"]


def test_the_line_of_an_error_far_inside(tmp_path):
    good = "2024-06-28 23:17:41.250,1.5,TCP,10.0.0.1,1234,10.0.0.2,80,10,1000,1"
    path = write(tmp_path / "long.csv", NEW, *[good] * 20_000, good.replace("1234", "x"), good)
    with pytest.raises(FlowRecordError, match="line 20002: the port 'x'"):
        read_flow_records(path)


def test_times_read_in_bulk_agree_with_decimals():
    rng = random.Random(3)
    clock = Clock("-")
    seconds = [f"{rng.randrange(1 << 31)}.{rng.randrange(10**6):06}" for _ in range(2000)]
    assert clock.times(seconds, 9).tolist() == [int(Decimal(text) * 10**9) for text in seconds]
    spans = [f"{rng.randrange(10 ** rng.randrange(1, 7))}.{rng.randrange(10**9):09}"[: rng.randrange(3, 17)] for _ in range(2000)]
    assert clock.spans(spans, 9).tolist() == [int(Decimal(text) * 10**9) for text in spans]
    assert [decimal_ns(text, 9) for text in spans] == [int(Decimal(text) * 10**9) for text in spans]
    dates = []
    for _ in range(2000):
        moment = datetime.fromtimestamp(rng.randrange(1 << 32), UTC).strftime("%Y-%m-%d %H:%M:%S")
        dates.append(moment + f".{rng.randrange(10**9):09}"[: rng.choice((0, 4, 7, 10))])
    wanted = [
        int(datetime.fromisoformat(text[:19] + "+00:00").timestamp()) * 10**9 + int(Decimal("0" + text[19:] or "0") * 10**9)
        for text in dates
    ]
    assert clock.times(dates, 9).tolist() == wanted
    assert [clock.times([text], 9)[0] for text in dates] == wanted


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2024-06-28T23:17:41Z", T0),
        ("2024-06-29 01:17:41.5+02:00", T0 + 500_000_000),
        (" 2024-06-28 23:17:41.25 ", T0 + 250_000_000),
        ("1.7196166612e9", T0 + 200_000_000),
        ("1719616661", T0),
        ("0", 0),
    ],
)
def test_times_in_other_forms(text, ns):
    assert Clock("-").times([text], 9).tolist() == [ns]


@pytest.mark.parametrize(
    "text", ["", "-", ".", "1.2.3", "nan", "inf", "-1", "1.-5", "0x10", "2024-", "2024-06-28 23:17:41,.5.", "9" * 5000]
)
def test_what_is_no_time(text):
    with pytest.raises(ValueError, match="is not"):
        Clock("-").times([text], 9)


def test_protocol_names_agree_with_the_system():
    import socket

    for name in ("tcp", "udp", "icmp", "gre", "esp", "ah", "sctp", "udplite", "ospf", "ipv6-icmp", "igmp", "pim", "vrrp", "l2tp"):
        try:
            number = socket.getprotobyname(name)
        except OSError:
            continue
        assert PROTOCOLS[name] == number


def seeds(tmp_path):
    rng = random.Random(1)
    good = [
        f"2024-06-28 23:17:{rng.randrange(60):02}.{rng.randrange(1000):03},{rng.randrange(9)}.5,TCP,10.0.0.{rng.randrange(256)},80,"
        f"10.0.0.{rng.randrange(256)},{rng.randrange(65536)},{rng.randrange(99)},{rng.randrange(9999)},1"
        for _ in range(5)
    ]
    new = write(tmp_path / "new", NEW, *good)
    tsv = zeek(tmp_path / "tsv", *ROWS)
    pairs = '"ts":1300475167.09,"uid":"C","id.orig_h":"10.0.0.1","id.orig_p":5,"id.resp_h":"10.0.0.2","id.resp_p":53,"proto":"udp"'
    line = "{" + pairs + ',"orig_pkts":1}'
    table = write(tmp_path / "t", "first,last,from,to,ip proto,n", '1,2,10.0.0.1,"10.0.0.2",6,1')
    return [(new, {}), (tsv, {}), (write(tmp_path / "json", line, line), {}), (table, {"columns": TABLE})]


TOKENS = [b",", b"\n", b"\t", b'"', b"-", b".", b"9" * 30, b"#", b"1e9", b"\r\n", b"\0", b"{", b":"]


def mutate(tmp_path, rounds, seed):
    """Damage records anywhere: what is read is sound, what is refused is one sentence with the file."""
    rng = random.Random(seed)
    path = tmp_path / "mutant"
    read = 0
    for original, settings in seeds(tmp_path):
        whole = original.read_bytes()
        for _ in range(rounds):
            data = bytearray(whole)
            for _ in range(rng.randrange(1, 4)):
                at = rng.randrange(len(data))
                kind = rng.randrange(5)
                if kind == 0:
                    data[at] = rng.randrange(256)
                elif kind == 1:
                    del data[at : at + rng.randrange(1, 20)]
                elif kind == 2:
                    data[at:at] = rng.choice(
                        [b",", b"\n", b"\t", b'"', b"-", b".", b"9" * 30, b"#", b"1e9", b"\r\n", b"\0", b"{", b":"]
                    )
                elif kind == 3:
                    data[at:at] = data[rng.randrange(len(data)) :][: rng.randrange(1, 60)]
                else:
                    data[at] = rng.choice(b"0123456789.-,:e")
                if not data:
                    break
            path.write_bytes(data)
            try:
                found = read_flow_records(path, **settings)
            except ValueError as error:
                said = str(error)
            else:
                said = ""
            if said:
                assert said.startswith(str(path)), bytes(data)
                assert "\n" not in said, bytes(data)
                assert len(said) < 1000, bytes(data)
                continue
            read += 1
            assert (found.packets > 0).all(), bytes(data)
            assert (found.duration >= 0).all(), bytes(data)
            assert (np.diff(found.start) >= 0).all(), bytes(data)
    return read


def test_mutations_are_read_or_refused(tmp_path):
    assert mutate(tmp_path, 600, 11) > 100


@pytest.mark.slow
def test_a_million_mutations(tmp_path):
    assert mutate(tmp_path, 250_000, 12) > 50_000
