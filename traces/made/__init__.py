"""Traffic made from a seed: what users ask about and no capture holds.

zipf.py: many flows, few of them heavy. scan.py, random_destinations.py, spoofed.py, collisions.py: attacks on lookup structures.
bursts.py and mixture.py change and combine other sources. places.py: where addresses are drawn from, alias.py: how, stream.py: what
all of these share.
"""

from traces.made.bursts import Bursts
from traces.made.collisions import Collisions
from traces.made.mixture import Mixture
from traces.made.places import Places, destinations_from, places_in
from traces.made.random_destinations import RandomDestinations
from traces.made.scan import PortScan
from traces.made.spoofed import SpoofedFlood
from traces.made.zipf import Zipf

__all__ = [
    "Bursts",
    "Collisions",
    "Mixture",
    "Places",
    "PortScan",
    "RandomDestinations",
    "SpoofedFlood",
    "Zipf",
    "destinations_from",
    "places_in",
]
