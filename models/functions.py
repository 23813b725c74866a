"""Names of the kernel functions that cost is charged to, and their fixed numbers.

Kernels freeze the numbers as constants, so a number never depends on import order: the table below is the only place
that gives one, and appending to it is the way to add a built-in function. Structures from outside the project
register names at run time (`register`) and pass the number to their kernels as an argument.
"""

BUILT_IN = (
    # receive side of the packet path
    "e1000_clean_rx_irq", "e1000_alloc_rx_buffers", "eth_type_trans", "netif_receive_skb", "ip_rcv",
    "__alloc_skb", "__kmalloc", "kmem_cache_alloc",
    # forwarding and transmit side
    "ip_forward", "ip_output", "neigh_resolve_output", "eth_header", "dev_queue_xmit", "__qdisc_run",
    "qdisc_dequeue_head", "dev_hard_start_xmit", "e1000_xmit_frame", "e1000_maybe_stop_tx", "e1000_tx_map",
    "e1000_tx_queue", "e1000_clean_tx_irq", "dev_kfree_skb_any", "kfree_skb", "kfree", "kmem_cache_free",
    "pfifo_fast_enqueue", "memcpy",
    # routing cache, vanilla
    "ip_route_input", "rt_hash_code", "rt_intern_hash", "rt_garbage_collect", "rt_may_expire", "rt_check_expire",
    "rt_run_flush", "rt_free",
    # slow path
    "ip_route_input_slow", "fib_lookup", "fib_get_table", "fn_trie_lookup", "fib_rules_lookup", "fib_semantic_match",
    "fib_validate_source", "dst_alloc", "arp_bind_neighbour", "neigh_lookup", "memcmp",
    # delayed freeing and the slab allocator
    "call_rcu_bh", "rcu_do_batch", "dst_rcu_free", "dst_destroy", "ipv4_dst_destroy", "cache_alloc_refill",
    "cache_flusharray", "free_block", "slab_put_obj",
    # LC-trie and unicache
    "trie_lookup", "tkey_extract_bits", "tkey_equals", "unicache_hash_code", "unicache_tcp_establish", "match_pktgen",
    "unicache_garbage_collect_active", "unicache_garbage_collect", "trie_insert", "trie_remove", "trie_rebalance",
    "resize", "inflate", "halve", "tnode_free",
    # reference structures
    "perfect_lookup", "perfect_insert", "lru_lookup", "lru_insert",
    # everything else of a softirq round: interrupt entry, net_rx_action, timers
    "net_rx_action", "other_per_packet", "other_slow_path",
)  # fmt: skip

MAX_FUNCTIONS = 256
"""Size of every array indexed by function number."""

_numbers: dict[str, int] = {name: number for number, name in enumerate(BUILT_IN)}


def number(name: str) -> int:
    """The number of a known function; KeyError with the name if nobody registered it."""
    return _numbers[name]


def register(name: str) -> int:
    """The number of `name`, a new one if it is not known yet. Raises ValueError when the table is full."""
    if name not in _numbers:
        if len(_numbers) >= MAX_FUNCTIONS:
            raise ValueError(f"no more than {MAX_FUNCTIONS} functions can be charged; {name!r} is one too many")
        _numbers[name] = len(_numbers)
    return _numbers[name]


def names() -> list[str]:
    """Every known name, at the index that is its number."""
    return list(_numbers)
