"""Races between attacks: one that can't win any more may be given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Into how many parts the search of an attack is divided; at the end of each it may be given up.
MARKS = 8
_FIRST_MARK = 3
# The accuracy of a relaxed graph may be above that of the whole flips which are made of it; more is rare.
_SLACK = 0.02


@dataclass
class Race:
    """An accuracy that an attack must get below to be of any use.

    The lowest accuracy that a search has seen falls fast at first and then ever more slowly. So what the last two parts
    of the search gained is more than the remaining ones will gain each; where even that would not do, the attack is
    given up: it ends with the best flips that it has found so far.

    Attributes:
        beat: The accuracy to get below.
        abandoned: Whether the attack was given up; set by the attack.
    """

    beat: float
    abandoned: bool = False

    def is_lost(self, marks: Sequence[float]) -> bool:
        """Return whether the race is lost.

        Args:
            marks: The lowest accuracy so far at the end of every part of the search, of `MARKS` in all.

        >>> Race(0.5).is_lost([0.8, 0.78, 0.77, 0.765]), Race(0.5).is_lost([0.8, 0.7, 0.63, 0.58])
        (True, False)
        """
        if len(marks) < _FIRST_MARK or len(marks) > MARKS:
            return False
        gain = (marks[-3] - marks[-1]) / 2
        return marks[-1] - gain * (MARKS - len(marks)) > self.beat + _SLACK
