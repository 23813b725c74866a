"""Changes of routes from BGP updates, against messages written by hand."""

import bz2
import os

import pytest
from oracles import mrt_bytes as mrt

from traces.churn import WITHDRAWN, holds_updates, make_churn, read_updates

A, B, C = "192.0.2.1", "192.0.2.2", "2001:db8::c"
T = 1_171_158_060


def rows(churn):
    return [churn.text(i) for i in range(churn.plen.size)]


def read(tmp_path, content, **options):
    (tmp_path / "updates").write_bytes(content)
    return read_updates(tmp_path / "updates", **options)


def refused(tmp_path, content, **options):
    with pytest.raises(ValueError) as error:
        read(tmp_path, content, **options)
    assert "\n" not in str(error.value)
    return str(error.value).replace(f"{tmp_path}/", "")


FILE = [
    mrt.update(B, announced=["10.9.0.0/16"], hop=B, seconds=T),
    mrt.update(A, announced=["10.0.0.0/8", "10.1.0.0/16"], hop=A, seconds=T + 1),
    mrt.update(A, announced=["10.0.0.0/8"], hop=A, seconds=T + 2),  # nothing new
    mrt.update(A, announced=["10.0.0.0/8"], hop="198.51.100.1", seconds=T + 3, microseconds=250_000, as4=True),
    mrt.update(A, withdrawn=["10.1.0.0/16", "10.2.0.0/16"], seconds=T + 4),  # the second was never seen
    mrt.update(A, withdrawn=["10.1.0.0/16"], seconds=T + 4),
    mrt.update(A, withdrawn=["10.0.0.0/8"], announced=["10.0.0.0/8", "0.0.0.0/0"], hop=A, seconds=T + 5),
    mrt.message(A, 4, b"", seconds=T + 5),  # KEEPALIVE
    mrt.state_change(A, 6, 1, seconds=T + 6),
    mrt.update(A, announced=["2001:db8:1::/48"], hop="2001:db8::9", seconds=T + 6),
    mrt.record(13, 1, b"a table", T + 6),
    mrt.update(A, announced=["10.1.0.0/16"], hop=A, seconds=T + 5),  # goes back in time
    mrt.state_change(B, 6, 1, seconds=T + 20),
]


def test_updates_of_the_busiest_peer(tmp_path):
    churn = read(tmp_path, b"".join(FILE))
    assert rows(churn) == [
        "1.000000 10.0.0.0/8 192.0.2.1",
        "1.000000 10.1.0.0/16 192.0.2.1",
        "3.250000 10.0.0.0/8 198.51.100.1",
        "4.000000 10.1.0.0/16 withdrawn",
        "4.000000 10.2.0.0/16 withdrawn",
        "5.000000 10.0.0.0/8 192.0.2.1",
        "5.000000 0.0.0.0/0 192.0.2.1",
        "6.000000 10.1.0.0/16 192.0.2.1",
    ]
    assert churn.nexthop.tolist() == [0, 0, 1, WITHDRAWN, WITHDRAWN, 0, 0, 0]
    assert (churn.start_ns, churn.span_ns, churn.family) == (T * 10**9, 20 * 10**9, 4)
    assert churn.left_out == {
        "records of type 13, subtype 1": 1,
        "updates of other peers": 1,
        "announcements of the next hop that was": 1,
        "withdrawals of what was withdrawn": 1,
        "messages of the peer that are no updates": 1,
        "changes of the session's state (its routes stay)": 1,
        "IPv6 routes": 1,
    }
    assert churn.remarks == (
        "peer 192.0.2.1, the one with the most IPv4 updates of 2 peers: 7 IPv4 updates",
        "1 records earlier than one before them: held at its time",
    )
    assert len(churn.notes()) == 9


def test_another_peer_and_ipv6(tmp_path):
    content = bz2.compress(
        b"".join(FILE)
        + mrt.update(C, announced=["2001:db8:1::/48", "2001:db8:2::/49"], hop="2001:db8::9", seconds=T + 21, as4=True)
        + mrt.update(C, withdrawn=["2001:db8:1::/48"], announced=["10.0.0.0/8"], hop=A, seconds=T + 22)
        + mrt.update(C, withdrawn=["2001:db8:1::/48"], seconds=T + 22)
    )
    assert rows(read(tmp_path, content, peer=B)) == ["0.000000 10.9.0.0/16 192.0.2.2"]
    six = read(tmp_path, content, family=6)
    assert rows(six) == [
        "21.000000 2001:db8:1::/48 2001:db8::9",
        "21.000000 2001:db8:2::/49 2001:db8::9",
        "22.000000 2001:db8:1::/48 withdrawn",
    ]
    assert six.prefix.tolist()[1] == [0x20010DB8, 0x00020000, 0, 0]
    assert six.remarks[0] == "peer 2001:db8::c, the one with the most IPv6 updates of 2 peers: 2 IPv6 updates"
    assert six.left_out["IPv4 routes"] == 1
    assert rows(read(tmp_path, content, family=6, peer=A)) == ["6.000000 2001:db8:1::/48 2001:db8::9"]


def test_peers_that_are_not_there(tmp_path):
    assert refused(tmp_path, b"".join(FILE), peer="192.0.2.9") == (
        "updates holds no IPv4 updates of peer 192.0.2.9; its peers, with their IPv4 updates: 192.0.2.1 (7), 192.0.2.2 (1)"
    )


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        (b"10.0.0.0/8 a\n", {}, "updates is no MRT dump; changes of routes are read from a collector's BGP4MP updates"),
        (b"", {}, "updates is no MRT dump"),
        (mrt.peer_index(A), {}, "updates holds no BGP updates of IPv4 routes; is it a table?"),
        (FILE[0], {"family": 6}, "updates holds no BGP updates of IPv6 routes, only 1 of the other family"),
        (FILE[0], {"family": 5}, "routes are of family 4 or 6, got 5"),
        (FILE[0] + FILE[1][:40], {}, f"updates, record 2 at byte {len(FILE[0])}: ends after 28 of "),
        (FILE[0] + mrt.record(16, 1, b"\0" * 30), {}, f"updates, record 2 at byte {len(FILE[0])}: has 30 bytes, which no message"),
        (mrt.record(17, 1, b"\0\0\0"), {}, "updates, record 1 at byte 0: has no room for its microseconds"),
    ],
)
def test_sentences(tmp_path, content, options, sentence):
    assert refused(tmp_path, content, **options).startswith(sentence)


def test_messages_that_mrtparse_cannot_decode(tmp_path):
    broken = mrt.message(A, 2, b"\0\2\x21\1\0\0", seconds=T)  # withdraws a /33
    hopless = mrt.update(A, announced=["10.3.0.0/16"], seconds=T)
    churn = read(tmp_path, FILE[1] + broken + broken + hopless)
    assert churn.plen.size == 2
    assert churn.left_out == {"updates that mrtparse cannot decode": 2, "announcements without a next hop": 1}
    assert churn.remarks[1].startswith(f"the first that mrtparse cannot decode: record 2 at byte {len(FILE[1])} (")


def test_a_pipe_is_refused_before_it_is_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for reader in (read_updates, holds_updates):
        with pytest.raises(ValueError, match="pipe is a pipe, and routes are read several times"):
            reader(tmp_path / "pipe")


def test_churn_of_a_list():
    churn = make_churn([(0, 10 << 24, 8, "a"), (5, 10 << 24, 8, None), (5, 10 << 24, 8, "b")])
    assert churn.nexthop.tolist() == [0, -1, 1]
    assert churn.nexthops == ["a", "b"]
    assert rows(make_churn([])) == []
