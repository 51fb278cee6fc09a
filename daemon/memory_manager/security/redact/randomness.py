"""Whether letters look drawn at random or written by a person. Contract: redaction.md 4.3.

Shannon entropy is no help for short values and is diluted by padding. Counted instead: how long the
runs of one case are, and how many neighbouring letters are pairs that words are made of.
"""

from __future__ import annotations

import re
from typing import Final

_RUN: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_LETTERS: Final = re.compile(r"[a-z]+")
MIN_CHARACTERS_PER_RUN: Final = 2.6
MIN_COMMON_PAIRS: Final = 0.62

_COMMON_PAIRS: Final = frozenset(
    "ab ac ad ag ai al am an ap ar as at au av ay ba be bi bl bo br bu ca ce ch ci ck cl co cr ct "
    "cu "
    "da de di do dr ds du ea ec ed ee ef el em en ep er es et ev ex ey fa fe ff fi fl fo fr fu ga "
    "ge "
    "gh gi gl go gr gu ha he hi ho ht hu ia ib ic id ie if ig il im in io ip ir is it iv ke ki ks "
    "la "
    "ld le li ll lo ls lt lu ly ma me mi mm mo mp mu na nc nd ne nf ng ni nn no ns nt nu ny oa oc "
    "od "
    "of og oi ok ol om on oo op or os ot ou ov ow pa pe ph pi pl po pp pr ps pt pu qu ra rc rd re "
    "ri "
    "rk rl rm rn ro rr rs rt ru ry sa sc se sh si so sp ss st su sy ta te th ti to tr ts tt tu ty "
    "ub "
    "uc ud ue ug ui ul um un up ur us ut va ve vi vo wa we wh wi wn wo ws ya ye yo ys za ze zi "
    "eb lf lv rv dm pd tp sw sk lk wr kn gn ht ft xt xp nk mb ob ek ik ak "
    "ao ei oe ua az ez iz nh lh dd gg bb cc zz uo aj ej oj ij cz rz sz".split()
)


def case_runs(body: str) -> float:
    """Mean length of runs of one case, a capital counting with the letters after it."""
    runs = _RUN.findall(body)
    return sum(map(len, runs)) / len(runs) if runs else 0.0


def common_pairs(body: str) -> float:
    """Share of neighbouring letters that are pairs common in written words, 0..1."""
    total = common = 0
    for run in _LETTERS.findall(body.lower()):
        for position in range(len(run) - 1):
            total += 1
            common += run[position : position + 2] in _COMMON_PAIRS
    return common / total if total else 1.0


def looks_random(body: str) -> bool:
    """Letters (digits allowed) that no naming convention explains."""
    if len(body) < 10:
        return False
    if case_runs(body) < MIN_CHARACTERS_PER_RUN:
        return True
    return common_pairs(body) < MIN_COMMON_PAIRS
