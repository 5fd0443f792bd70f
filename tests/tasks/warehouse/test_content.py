"""Content hashes: those of reports are made of their parts', and of no others."""

import json
import re
from hashlib import md5

from answerkey.tasks.warehouse.content import (
    PARTITIONS,
    reports_with_other_checksums,
    write_checksums,
    write_report_checksums,
)
from answerkey.tasks.warehouse.home import Home

REPORTS = """
INSERT INTO reports BY NAME
SELECT concat('d/r', i, '/v1') AS report_id, 'd' AS dataset, '1' AS dataset_version, concat('r', i) AS release,
       1 AS version, now() AS created_at, 'COMPLETE' AS status, '{}' AS manifest, 'a' AS answers_version,
       concat('run', i) AS run_id
FROM range(40) t(i)
"""
ANSWERS = """
INSERT INTO answers BY NAME
SELECT 'd' AS dataset, concat('r', i) AS release, 'a' AS answers_version, concat('s', i) AS sample_id, 1 AS repeat,
       concat('k', i) AS sample_key, 'It is.' AS answer
FROM range(40) t(i)
"""


def test_a_report_is_signed_from_its_own_parts_alone(tmp_path):
    home, profile = Home(tmp_path / "home"), tmp_path / "profile.json"
    with home.warehouse.writing() as warehouse:
        warehouse.execute(REPORTS)
        warehouse.execute(ANSWERS)
        write_checksums(warehouse, {"answers": [f"d/r{i}/a" for i in range(40)]})
        warehouse.execute(f"PRAGMA enable_profiling = 'json'; PRAGMA profiling_output = '{profile}'")
        write_report_checksums(warehouse, ["d/r5/v1", "d/r7/v1"])
        warehouse.execute("PRAGMA disable_profiling")
        signed = warehouse.execute("SELECT report_id, content_hash FROM reports WHERE content_hash IS NOT NULL")
        found = dict(signed.fetchall())
        assert len(reports_with_other_checksums(warehouse)) == 38
        lines = warehouse.execute(
            "SELECT concat_ws(' ', table_name, n_rows, content_hash) FROM content_hashes "
            "WHERE part IN ('d/r5/v1', 'd/r5/a') ORDER BY table_name"
        ).fetchall()
    assert sorted(found) == ["d/r5/v1", "d/r7/v1"] and PARTITIONS["scores"] == "report_id"
    assert [line.split()[0] for (line,) in lines] == ["answers", "reports"]
    assert found["d/r5/v1"] == md5("\n".join(line for (line,) in lines).encode()).hexdigest()
    # The last statement signed: no join compares every report with every hash, and each finds those of two reports.
    plan = profile.read_text()
    joins = set(re.findall(r'"(?:operator_type|operator_name)": "(\w*(?:JOIN|PRODUCT))\s*"', plan))
    assert joins == {"HASH_JOIN"}, json.loads(plan)
