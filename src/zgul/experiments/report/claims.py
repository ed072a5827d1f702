"""Do the paper's claims hold here? Sentences made by rule from numbers, with the numbers in them.

A difference *holds* if it has the claimed sign in every seed and McNemar's test supports it in every seed (p < 0.005,
the paper's level, on the pooled words of the group); it is *not beyond chance* if it has the sign on average but not
that support; otherwise it *does not hold*.
"""

from __future__ import annotations

from typing import Any

from zgul.experiments.report import paper, tables
from zgul.experiments.report.frame import ABLATIONS, ZGUL, Frame
from zgul.experiments.report.tables import ALPHA, Comparison, group_correlation, group_title, p_value

COMPONENTS = {"ZGUL w/o EM": "EM", "ZGUL w/o L": "Lang2Vec (L)", "ZGUL w/o F": "Fusion (F)"}
NETWORKS = ("lang2vec", "fusion")
STRONG, WEAK = 0.5, 0.2  # correlations from which we say that attention follows relatedness, or hardly does


def first_in_group(frame: Frame, part: str, counts: list[dict[str, Any]]) -> list[str]:
    """Is ZGUL first in each group?"""
    sentences, first = [], 0
    for group in frame.groups(part):
        test = tables.against_closest(frame, part, group, counts)
        if test is None:
            continue
        first += test.difference > 0
        published = _paper_lead(group)
        sentences.append(
            f"**{group_title(group)}: {verdict(test)}.** ZGUL {test.own:.1f}, closest baseline {test.row} "
            f"{test.other:.1f}: {signed(test.difference)} ({_support(test)}). Paper: {published}."
        )
    if not sentences:
        return []
    return [
        f"ZGUL has the highest average of all but its own ablations in {first} of {len(sentences)} groups.",
        *sentences,
    ]


def components(frame: Frame, part: str, counts: list[dict[str, Any]]) -> list[str]:
    """Does each component help?"""
    sentences = []
    for row in ABLATIONS:
        told, helped = [], 0
        for group in frame.groups(part):
            test = tables.against(frame, part, group, row, counts)
            if test is None:
                continue
            helped += test.difference > 0
            gain = paper.average(group, ZGUL) - paper.average(group, row)
            told.append(
                f"**{COMPONENTS[row]}, {group_title(group)}: {verdict(test)}.** With it {test.own:.1f}, without "
                f"{test.other:.1f}: {signed(test.difference)} ({_support(test)}). Paper: {signed(gain)}."
            )
        if told:
            sentences += [f"{COMPONENTS[row]} raises the average in {helped} of {len(told)} groups.", *told]
    return sentences


def em(frame: Frame) -> list[str]:
    """What of EM's gain is entropy?"""
    sentences = []
    control, release = "ZGUL, EM T=1 lr=0 from probabilities", "ZGUL, EM from probabilities"
    for group in frame.groups("zero-shot"):

        def gain(row: str, other: str, group: str = group) -> float | None:
            value = tables.row_difference(frame, "zero-shot", group, row, other)
            return None if value is None else value.mean

        whole, flat, rest = gain(release, "ZGUL w/o EM"), gain(control, "ZGUL w/o EM"), gain(release, control)
        told = []
        if whole is not None and flat is not None and rest is not None:
            told.append(
                f"the release's EM gives {signed(whole)}, of which {signed(flat)} is flattening alone (no step taken) "
                f"and {signed(rest)} entropy"
            )
        tied = gain(ZGUL, "ZGUL, EM tied by layer")
        if tied is not None:
            told.append(f"token-wise against layer-tied EM: {signed(tied)}")
        tuned = gain("ZGUL, EM on target dev", ZGUL)
        if tuned is not None:
            told.append(f"tuning EM on target dev: {signed(tuned)} over the languages that have one")
        if told:
            sentences.append(f"**{group_title(group)}**: {'; '.join(told)}.")
    return sentences


def attention(frame: Frame) -> list[str]:
    """Does attention follow relatedness? Of both networks, as the paper claims."""
    sentences, counts = [], dict.fromkeys(NETWORKS, 0)
    for group in frame.groups("zero-shot"):
        told, answers = [], []
        for kind, title in tables.WEIGHTS.items():
            value = group_correlation(frame, kind, group)
            if value is None:
                continue
            spread = f" ± {value.std:.2f}" if value.std is not None else ""
            told.append(f"{title} {value.mean:.2f}{spread} (paper {paper.CORRELATION.get(group, kind):.2f})")
            if kind in NETWORKS:
                answers.append(f"{title} {_follows(value.mean)}")
                counts[kind] += _follows(value.mean) == "yes"
        if answers:
            numbers = ", ".join(told).replace("-0.", "−0.")
            sentences.append(f"**{group_title(group)}: {', '.join(answers)}.** Correlation: {numbers}.")
    if not sentences:
        return []
    total = len(sentences)
    rule = (
        f"The paper finds high correlations for both attention networks. Here Lang2Vec's weights follow relatedness in "
        f"{counts['lang2vec']} of {total} groups and Fusion's in {counts['fusion']}: *yes* from a mean correlation of "
        f"{STRONG} on, *weakly* from {WEAK}, *reversed* below −{WEAK}, whatever the spread over seeds."
    )
    return [rule, *sentences]


def _follows(correlation: float) -> str:
    seen = round(correlation, 2)
    return "yes" if seen >= STRONG else "weakly" if seen >= WEAK else "reversed" if seen <= -WEAK else "no"


def verdict(test: Comparison) -> str:
    """In two or three words, by the rule above."""
    return "holds" if test.holds else "not beyond chance" if test.difference > 0 else "does not hold"


def signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0: there is no −0.0


def _support(test: Comparison) -> str:
    """The evidence: spread over seeds, McNemar."""
    values, tests = test.differences, test.tests
    told = f"{signed(min(values))} to {signed(max(values))} over {len(values)} seeds" if len(values) > 1 else "one seed"
    if not tests:
        return f"{told}; McNemar not computed"
    mixed = "not one way in all seeds" if len(tests) > 1 else "even"
    direction = "for ZGUL" if test.more_words else "against ZGUL" if test.fewer_words else mixed
    largest = p_value(test.p)
    told += f"; McNemar p {'' if largest.startswith('<') else '= '}{largest}"
    return f"{told}{' at most' if len(tests) > 1 else ''}, {direction}"


def _paper_lead(group: str) -> str:
    nearest, gain = paper.lead(group)
    star = f", p < {ALPHA}" if group in paper.SIGNIFICANT else ""
    return f"{signed(gain)} over {nearest}{star}"
