"""What is imported with Great Expectations, and what only when it is used."""

import subprocess
import sys

import pytest

IMPORTS = """
import sys
import pandas as pd
from answerkey.tasks.validate.suite import great_expectations, validated

gx = great_expectations()
print(*(name for name in ("altair", "scipy.stats") if name in sys.modules), "at first")
partition = {"values": ["a", "b"], "weights": [0.5, 0.5]}
expectation = gx.expectations.ExpectColumnKLDivergenceToBeLessThan(
    column="letter", partition_object=partition, threshold=0.1
)
suite = gx.ExpectationSuite(name="letters", expectations=[expectation])
for letters in ("aabb", "aaab"):
    [result] = validated(pd.DataFrame({"letter": list(letters)}), suite)
    print(result.success, f"{result.result['observed_value']:.4f}")

import altair, scipy.stats
from great_expectations.expectations.core import expect_column_kl_divergence_to_be_less_than as module

print(module.alt.Chart is altair.Chart, f"{scipy.stats.norm.cdf(0):.1f}")
"""
"""What charts and distributions need is imported by the one expectation that measures a distance of distributions: of
3 in 4 from 1 in 2 it is .75 ln 1.5 + .25 ln .5 = .1308. Both modules are those of everybody then."""


@pytest.mark.slow
def test_charts_and_distributions_are_imported_by_what_needs_them():
    done = subprocess.run([sys.executable, "-c", IMPORTS], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["at first", "True 0.0000", "False 0.1308", "True 0.5"]
