"""Languages: codes and names, URIEL features, relatedness, groups. Needs numpy only."""

from zgul.languages.groups import GROUPS, SOURCES, TARGETS, Assignment, Group, assign_group, explain_group
from zgul.languages.language import Language, find
from zgul.languages.relatedness import most_related, shared_ancestors, similarity
from zgul.languages.uriel import closest_relative, feature_names, feature_source, features

__all__ = ["GROUPS", "SOURCES", "TARGETS", "Assignment", "Group", "Language"]
__all__ += ["assign_group", "closest_relative", "explain_group", "feature_names", "feature_source", "features"]
__all__ += ["find", "most_related", "shared_ancestors", "similarity"]
