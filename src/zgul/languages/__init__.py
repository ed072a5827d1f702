"""Languages: codes and names, URIEL features, relatedness, groups. Needs numpy only."""

from zgul.languages.groups import GROUPS, SOURCES, TARGETS, Assignment, Group, assign_group, explain_group
from zgul.languages.language import Language, find
from zgul.languages.relatedness import most_related, shared_ancestors, similarity
from zgul.languages.uriel import closest_relative, feature_names, features

__all__ = [
    "GROUPS",
    "SOURCES",
    "TARGETS",
    "Assignment",
    "Group",
    "Language",
    "assign_group",
    "closest_relative",
    "explain_group",
    "feature_names",
    "features",
    "find",
    "most_related",
    "shared_ancestors",
    "similarity",
]
