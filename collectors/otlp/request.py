"""An OTLP export request: taken apart, thinned out, decoded, and read from JSON. What the rest of the program knows of OTLP's wire."""

from collectors.otlp.decode import Decoded, decode
from collectors.otlp.items import Item, Request, Wanted, select, split
from collectors.otlp.otlp_json import Converted, from_json
from collectors.otlp.raw import RawItem, RawItems

__all__ = [
    "Converted",
    "Decoded",
    "Item",
    "RawItem",
    "RawItems",
    "Request",
    "Wanted",
    "decode",
    "from_json",
    "select",
    "split",
]
