"""Declarations and cells that hypothesis draws from."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st
from pydantic import ValidationError

from dpearl.schema import Boolean, Category, Column, Datetime, Image, Number

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def numbers(draw: st.DrawFn) -> Number:
    lower, upper = draw(FINITE), draw(FINITE)
    step = draw(st.none() | st.sampled_from([1.0, 0.1, 0.25, 0.001, 5.0, 1e-9]) | FINITE)
    spikes = tuple(draw(st.lists(FINITE, max_size=3, unique=True)))
    try:
        return Number(lower=lower, upper=upper, step=step, log=draw(st.booleans()), spikes=spikes, missing=draw(st.booleans()))
    except ValidationError:
        return Number(lower=0, upper=draw(st.integers(1, 10**6)), spikes=spikes)


@st.composite
def categories(draw: st.DrawFn) -> Category:
    level = st.text(max_size=8) | st.integers() | st.booleans() | FINITE
    levels, other = draw(st.lists(level, min_size=2, max_size=6)), draw(st.none() | st.text(max_size=5))
    try:
        return Category(levels=tuple(levels), other=other, missing=draw(st.booleans()))
    except ValidationError:
        return Category(levels=("a", 1, True, 0.5))


@st.composite
def datetimes(draw: st.DrawFn) -> Datetime:
    zones = st.sampled_from([None, timezone.utc, timezone(timedelta(hours=5, minutes=30))])
    lower, upper = draw(st.datetimes(timezones=zones)), draw(st.datetimes(timezones=zones))
    step = f"{draw(st.integers(1, 10**5))}{draw(st.sampled_from(['us', 'ms', 's', 'min', 'h', 'd']))}"
    try:
        return Datetime(lower=lower, upper=upper, step=step)
    except ValidationError:
        return Datetime(lower=datetime(2020, 1, 1), upper=datetime(2021, 1, 1), step="1d")


BOOLEANS = st.builds(Boolean, missing=st.booleans())
IMAGES = st.builds(Image, height=st.integers(1, 9), width=st.integers(1, 9), channels=st.sampled_from([1, 3]))
COLUMNS: st.SearchStrategy[Column] = numbers() | categories() | datetimes() | BOOLEANS | IMAGES
