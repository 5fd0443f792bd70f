"""Samples by hash: the same every time, growing with the rate, the same in Python and in DuckDB."""

from itertools import pairwise

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from answerkey.tasks.traces.select import in_sample, sampled

IDS = [f"trace-{n}" for n in range(20_000)]


def taken(rate, rule="r"):
    held, bound = in_sample("trace_id", rule, rate)
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT trace_id FROM (SELECT unnest($ids) AS trace_id) WHERE {held}", {"ids": IDS, **bound}
        ).fetchall()
    return {trace_id for (trace_id,) in rows}


def test_a_higher_rate_keeps_what_a_lower_one_took():
    samples = [taken(rate) for rate in (0.0, 0.01, 0.1, 0.2, 0.5, 1.0)]
    assert all(lower <= higher for lower, higher in pairwise(samples))
    assert samples[0] == set() and samples[-1] == set(IDS)
    # Three standard deviations of 20,000 throws.
    assert abs(len(samples[2]) - 2_000) < 3 * 43 and abs(len(samples[3]) - 4_000) < 3 * 57


def test_python_takes_the_same_traces():
    assert taken(0.1) == {one for one in IDS if sampled("r", one, 0.1)} == taken(0.1)


def test_two_rules_take_different_tenths():
    one, other = taken(0.1, "one"), taken(0.1, "other")
    assert one != other
    assert abs(len(one & other) - 200) < 3 * 15


@given(st.text(), st.text(), st.floats(0, 1), st.floats(0, 1))
def test_no_id_breaks_the_order(rule, trace_id, one, other):
    low, high = sorted((one, other))
    rule, trace_id = (text.encode("utf-8", "replace").decode() for text in (rule, trace_id))
    assert sampled(rule, trace_id, low) <= sampled(rule, trace_id, high)
    assert not sampled(rule, trace_id, 0.0) and sampled(rule, trace_id, 1.0)
