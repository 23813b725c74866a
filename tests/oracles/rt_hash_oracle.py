"""The vanilla routing cache in plain Python: lists of entries, no log, no addresses, nothing resumable.

Written from the description of net/ipv4/route.c, 2.6.20, apart from the implementation; slow and small on purpose.
"""

from collections import Counter, deque
from dataclasses import dataclass, field

from oracles.jenkins import lookup2


@dataclass(eq=False)
class Entry:
    key: tuple
    route: int
    lastuse: int
    use: int = 0


@dataclass
class Oracle:
    buckets: int
    secret: int
    gc_thresh: int
    max_size: int
    elasticity: int
    gc_timeout: int  # jiffies, as all times here
    gc_interval: int
    gc_min_interval: int
    grace: int
    check_buckets: int = 1024
    cpus: int = 2
    stat: Counter = field(default_factory=Counter)

    def __post_init__(self):
        self.chains = [[] for _ in range(self.buckets)]
        self.queues = [deque() for _ in range(self.cpus)]
        self.entries = 0
        self.expire = self.gc_timeout
        self.last_gc = -self.gc_min_interval
        self.rover = self.equilibrium = self.check_rover = 0

    def slot(self, key):
        source, destination, interface, _ = key
        data = destination.to_bytes(4, "little") + (source ^ (interface << 5)).to_bytes(4, "little")
        return lookup2(data, (self.secret - len(data)) % (1 << 32)) % self.buckets  # the kernel leaves the length out

    def free(self, entry, cpu, now):
        self.queues[cpu].append((now, entry))

    def packet(self, words, route, cpu, now):
        """Route that a packet is given, None if it is refused."""
        key = (words[0], words[1], words[3] & 0xFFFF, words[3] >> 16 & 0x1C)
        chain = self.chains[self.slot(key)]
        for entry in chain:
            if entry.key == key:
                entry.lastuse, entry.use = now, entry.use + 1
                self.stat["in_hit"] += 1
                return entry.route
            self.stat["in_hlist_search"] += 1
        if not self.insert(key, route, cpu, now):
            self.stat["errors"] += 1
            return None
        self.stat["in_slow_tot"] += 1
        return route

    def insert(self, key, route, cpu, now):
        if self.entries > self.gc_thresh and not self.collection(cpu, now):
            return False
        self.entries += 1
        chain = self.chains[self.slot(key)]
        for entry in chain:
            if entry.key == key:
                chain.remove(entry)
                chain.insert(0, entry)
                entry.lastuse, entry.use = now, entry.use + 1
                self.free(Entry(key, route, now), cpu, now)
                self.stat["duplicates"] += 1
                return True
        if len(chain) > self.elasticity:
            oldest = min(entry.lastuse for entry in chain)
            victim = [entry for entry in chain if entry.lastuse == oldest][-1]
            chain.remove(victim)
            self.free(victim, cpu, now)
            self.stat["evicted"] += 1
        chain.insert(0, Entry(key, route, now))
        return True

    def prune(self, slot, timeout, cpu, now):
        """Unlink what may expire on a chain; how many."""
        kept, gone = [], 0
        for entry in self.chains[slot]:
            if now - entry.lastuse > timeout // 2 ** len(kept):
                self.free(entry, cpu, now)
                gone += 1
            else:
                kept.append(entry)
        self.chains[slot] = kept
        return gone

    def collection(self, cpu, now):
        """rt_garbage_collect inside softirq: False if the packet must be refused."""
        self.stat["gc_total"] += 1
        if now < self.last_gc + self.gc_min_interval and self.entries < self.max_size:
            self.stat["gc_ignored"] += 1
            return True
        self.stat["gc_runs"] += 1
        surplus = self.entries - self.elasticity * self.buckets
        if surplus > 0:
            self.stat["gc_danger"] += 1
            goal = max(surplus // 2, self.buckets)
            self.equilibrium = self.entries - goal
        else:
            if self.equilibrium < self.gc_thresh:
                self.equilibrium = self.gc_thresh
            goal = self.entries - self.equilibrium
            if goal > 0:
                self.equilibrium += min(goal // 2, self.buckets)
                goal = self.entries - self.equilibrium
        if now >= self.last_gc + self.gc_min_interval:
            self.last_gc = now
        if goal <= 0:
            self.equilibrium += goal
        else:
            for _ in range(self.buckets):
                self.rover = (self.rover + 1) % self.buckets
                self.stat["gc_buckets"] += 1
                self.stat["gc_scans"] += len(self.chains[self.rover])
                gone = self.prune(self.rover, self.expire, cpu, now)
                self.stat["gc_removed"] += gone
                goal -= gone
                if goal <= 0:
                    break
        if goal <= 0:
            self.expire += self.gc_min_interval
            if self.expire > self.gc_timeout or self.entries < self.gc_thresh:
                self.expire = self.gc_timeout
            return True
        self.stat["gc_goal_miss"] += 1
        self.expire //= 2
        if self.entries < self.max_size:
            return True
        self.stat["gc_dst_overflow"] += 1
        return False

    def reclaim(self, limit, cpu, now):
        """Destroy up to `limit` entries whose grace period has passed; how many."""
        done = 0
        while done < limit and self.queues[cpu] and self.queues[cpu][0][0] <= now - self.grace:
            self.queues[cpu].popleft()
            self.entries -= 1
            self.stat["destroyed"] += 1
            done += 1
        return done

    def check_expire(self, cpu, now):
        self.stat["check_runs"] += 1
        for _ in range(min(self.gc_interval * self.buckets // self.gc_timeout, self.buckets, self.check_buckets)):
            self.check_rover = (self.check_rover + 1) % self.buckets
            self.stat["check_scans"] += len(self.chains[self.check_rover])
            self.stat["check_removed"] += self.prune(self.check_rover, self.gc_timeout, cpu, now)

    def flush(self, secret, cpu, now):
        self.secret = secret
        self.stat["flushes"] += 1
        for slot in reversed(range(self.buckets)):
            for entry in self.chains[slot]:
                self.free(entry, cpu, now)
                self.stat["flushed"] += 1
            self.chains[slot] = []

    def remove(self, words, cpu, now):
        key = (words[0], words[1], words[3] & 0xFFFF, words[3] >> 16 & 0x1C)
        for entry in self.chains[self.slot(key)]:
            if entry.key == key:
                self.chains[self.slot(key)].remove(entry)
                self.free(entry, cpu, now)
                self.stat["removed"] += 1
                return True
        return False
