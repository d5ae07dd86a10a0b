"""What Hypothesis draws for each step alike, and how many cases."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.properties.storm import Kind, Trouble, Weather, When

_KINDS = (*Kind, *(Kind.CRASH, Kind.LOSE, Kind.REFUSE, Kind.WRITE) * 2)
"""What happens at single calls comes more often than what other invocations do."""
_trouble = st.builds(Trouble, st.integers(0, 7), st.sampled_from(_KINDS), st.sampled_from(When), st.integers(0, 63))
WEATHER = st.builds(Weather, troubles=st.lists(_trouble, max_size=6), lazy=st.booleans())
THREADS = st.builds(Weather, troubles=st.lists(_trouble, max_size=6), lazy=st.just(False), threads=st.just(True))

_World = TypeVar("_World")


def for_all(
    worlds: SearchStrategy[_World],
    weather: SearchStrategy[Weather],
    check: Callable[[_World, Weather], None],
    *,
    cases: int,
    part: int,
) -> None:
    """Check so many cases; the part's number is the seed. A case that fails is made small and printed with its blob."""

    @seed(part)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        print_blob=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(worlds, weather)
    def case(world: _World, storm: Weather) -> None:
        check(world, storm)

    case()
