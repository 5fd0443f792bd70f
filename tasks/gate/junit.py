"""A verdict as JUnit XML, which CI systems show: one test case a rule."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from answerkey.tasks.gate.verdicts import Gated

_TAGS = {"FAIL": "failure", "INCONCLUSIVE": "failure", "INCOMPLETE": "error"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def junit(gated: Gated) -> str:
    """One suite: a rule that holds passes, one that is not shown to hold is a failure, a gap in the evidence an error.

    Names come from data, and may hold anything: characters that XML has no place for become U+FFFD.
    """
    rules = gated.verdict.rules
    tags = [_TAGS.get(rule.outcome) for rule in rules]
    suite = ElementTree.Element(
        "testsuite",
        name=_xml(f"answerkey gate {gated.old} {gated.new}"),
        tests=str(len(rules)),
        failures=str(tags.count("failure")),
        errors=str(tags.count("error")),
        skipped="0",
        time="0",
    )
    for rule, tag in zip(rules, tags, strict=True):
        case = ElementTree.SubElement(suite, "testcase", classname="answerkey.gate", name=_xml(rule.rule), time="0")
        if tag:
            found = ElementTree.SubElement(
                case, tag, type=rule.outcome, message=_xml(f"{rule.outcome}: {rule.sentence}")
            )
            found.text = _xml(rule.sentence)
    ElementTree.SubElement(suite, "system-out").text = _xml(f"{gated.verdict.outcome}: {gated.verdict.sentence}")
    whole = ElementTree.Element("testsuites")
    whole.append(suite)
    ElementTree.indent(whole)
    return ElementTree.tostring(whole, encoding="unicode", xml_declaration=False) + "\n"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
