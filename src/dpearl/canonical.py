"""One spelling for one JSON value, so that equal things have equal digests."""

from __future__ import annotations

import json
from typing import Any


def canonical(value: Any) -> bytes:
    """Sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
