"""Numbers with their units, compared across units of one kind."""

from __future__ import annotations

import re
from dataclasses import dataclass

from answerkey.metrics_core.offline_judge.reading import Text
from answerkey.metrics_core.offline_judge.stance import SHELL_WORDS
from answerkey.metrics_core.offline_judge.vocabulary import UNIT_WORDS

_SAME, _NEAR = 0.005, 0.03
_KINDS = {
    "length": {"millimetre": 1e-3, "centimetre": 1e-2, "metre": 1.0, "kilometre": 1e3, "inch": 0.0254, "foot": 0.3048,
               "yard": 0.9144, "mile": 1609.344},
    "mass": {"gram": 1e-3, "kilogram": 1.0, "tonne": 1e3, "pound": 0.45359237},
    "time": {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0},
    "long time": {"month": 1.0, "year": 12.0},
}  # fmt: skip
_FACTORS = {unit: (kind, factor) for kind, units in _KINDS.items() for unit, factor in units.items()}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit, "" where the text names none that is known."""

    value: float
    unit: str = ""

    def equals(self, other: Quantity) -> bool:
        """The same amount; a missing unit goes with every unit, and converted units agree within 0.5 %."""
        if not self.unit or not other.unit or self.unit == other.unit:
            return self.value == other.value or self._share_of(other) or other._share_of(self)
        return self._apart(other) <= _SAME

    def near(self, other: Quantity) -> bool:
        """The same amount within 3 %, as people round."""
        if not self.unit or not other.unit or self.unit == other.unit:
            return _gap(self.value, other.value) <= _NEAR or self._share_of(other) or other._share_of(self)
        return self._apart(other) <= _NEAR

    def rivals(self, other: Quantity, asked: frozenset[str] = frozenset()) -> bool:
        """Measures the same kind of thing, so that another amount is another answer.

        Args:
            asked: units that the question names: one of them is understood where a number has none.
        """
        mine, yours = self.unit, other.unit
        if mine == yours or (not mine and yours in asked) or (not yours and mine in asked):
            return True
        return self.unit in _FACTORS and other.unit in _FACTORS and _FACTORS[self.unit][0] == _FACTORS[other.unit][0]

    def _share_of(self, percent: Quantity) -> bool:
        """0.25 and 25 %."""
        return percent.unit == "percent" and not self.unit and _gap(100 * self.value, percent.value) <= _SAME

    def _apart(self, other: Quantity) -> float:
        kind, factor = _FACTORS.get(self.unit, (self.unit, 1.0))
        other_kind, other_factor = _FACTORS.get(other.unit, (other.unit, 1.0))
        return _gap(self.value * factor, other.value * other_factor) if kind == other_kind else float("inf")


def _gap(a: float, b: float) -> float:
    return 0.0 if a == b else abs(a - b) / max(abs(a), abs(b))


def quantities(text: Text) -> list[Quantity]:
    """Every number of a text, with the unit right after it, or the currency right before it."""
    found: list[Quantity] = []
    stop = 0
    for number in text.numbers:
        after = text.tokens[number.stop] if number.stop < len(text.tokens) else ""
        before = text.tokens[number.start - 1] if number.start else ""
        if after == "in" and found and found[-1].unit == "foot":
            # "6 ft 1 in"; anywhere else it is the preposition.
            after = "inch"
        unit = UNIT_WORDS.get(after) or (UNIT_WORDS.get(before, "") if not before.isalnum() else "")
        one = Quantity(number.value, unit)
        if found and number.start <= stop + 2 and (joined := _joined(found[-1], one)):
            found[-1] = joined
        else:
            found.append(one)
        stop = number.stop
    return found


def _joined(first: Quantity, second: Quantity) -> Quantity | None:
    """ "3 hours and 48 minutes", "6 feet 1 inch": one amount in a larger and a smaller unit, in the smaller one."""
    kind, factor = _FACTORS.get(first.unit, ("", 1.0))
    other_kind, smaller = _FACTORS.get(second.unit, (None, 1.0))
    # "6 ft 1 in", but not "6 ft (183 cm)".
    if kind != other_kind or smaller >= factor or not 0 <= second.value * smaller < factor:
        return None
    return Quantity(round(first.value * factor / smaller + second.value, 6), second.unit)


_CLOCK = re.compile(r"(?<![\d:])([01]?\d|2[0-3]):([0-5]\d)(?![\d:])")


def clock(text: Text) -> int | None:
    """The one time of day of a text, in minutes on a face of twelve hours; None where it has none or several."""
    found = {int(hour) % 12 * 60 + int(minute) for hour, minute in _CLOCK.findall(text.normal)}
    return found.pop() if len(found) == 1 else None


def only_quantity(text: Text, given: frozenset[str]) -> Quantity | None:
    """The one quantity of a text that says no more than it, beside the `given` stems."""
    found = quantities(text)
    if len(found) != 1:
        return None
    spelled = {i for number in text.numbers for i in range(number.start, number.stop)}
    for i in text.content:
        token, stem = text.tokens[i], text.stems[i]
        if i not in spelled and token not in UNIT_WORDS and stem not in given and stem not in SHELL_WORDS:
            return None
    loose = [UNIT_WORDS[token] for token in text.tokens if token in UNIT_WORDS]
    return found[0] if found[0].unit or len(set(loose)) != 1 else Quantity(found[0].value, loose[0])
