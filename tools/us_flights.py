"""Make semiring/data/us-flights*.csv from the PyPI package bokeh_sampledata (tested with 2026.1).

    python -m pip install --no-deps bokeh_sampledata
    python tools/us_flights.py

Not needed at run time. The package holds airport locations by OurAirports (public domain) and the routes observed in
the flight reports of July 2026 of the U.S. Bureau of Transportation Statistics (a work of the U.S. government, public
domain). Kept here: each pair of airports that at least one carrier connects, once, with the great-circle distance.
"""

from __future__ import annotations

import csv
import gzip
import math
from importlib.resources import files
from pathlib import Path

EARTH_RADIUS = 6371.0088  # km, the mean radius of the WGS 84 ellipsoid
DATA = Path(__file__).parent.parent / "semiring" / "data"


def great_circle(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the kilometres between two points (latitude, longitude) in degrees, by the haversine formula."""
    (phi, lam), (psi, mu) = ([math.radians(angle) for angle in point] for point in (a, b))
    chord = math.sin((psi - phi) / 2) ** 2 + math.cos(phi) * math.cos(psi) * math.sin((mu - lam) / 2) ** 2
    return 2 * EARTH_RADIUS * math.asin(math.sqrt(chord))


def main() -> None:
    """Write the two tables."""
    source = files("bokeh_sampledata") / "_data"
    with (source / "airports.csv").open(encoding="utf-8") as stream:
        airports = {row["AirportID"]: row for row in csv.DictReader(stream)}
    with (source / "routes.csv.gz").open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8") as stream:
        pairs = {(row["SourceID"], row["DestinationID"]) for row in csv.DictReader(stream)}
    # The flight reports say PBI (West Palm Beach). The package renames it after the airport table's label.
    code = {key: {"DJT": "PBI"}.get(row["IATA"], row["IATA"]) for key, row in airports.items()}
    place = {key: (float(row["Latitude"]), float(row["Longitude"])) for key, row in airports.items()}
    routes = sorted((code[a], code[b], round(great_circle(place[a], place[b]))) for a, b in pairs)
    with (DATA / "us-flights.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([("source", "target", "km"), *routes])
    served = sorted({key for pair in pairs for key in pair}, key=code.__getitem__)
    table = [(code[key], airports[key]["City"], *(f"{angle:.4f}" for angle in place[key])) for key in served]
    with (DATA / "us-flights.positions.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([("name", "label", "latitude", "longitude"), *table])


if __name__ == "__main__":
    main()
