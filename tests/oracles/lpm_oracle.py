"""Longest prefix match by looking at every prefix: the slow truth for routing tables."""

NO_ROUTE = -1


class LinearTable:
    """A dict from (network, length) to route; a lookup scans all of it."""

    def __init__(self):
        self.routes = {}

    def insert(self, prefix, plen, route):
        self.routes[prefix, plen] = route

    def remove(self, prefix, plen):
        return self.routes.pop((prefix, plen), None) is not None

    def lookup(self, address):
        fits = [(plen, route) for (prefix, plen), route in self.routes.items() if address >> (32 - plen) == prefix >> (32 - plen)]
        return max(fits)[1] if fits else NO_ROUTE
