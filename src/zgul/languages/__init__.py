"""Languages: codes and names, URIEL features, relatedness, groups. Needs numpy only."""

from zgul.languages.groups import GROUPS, SOURCES, TARGETS, Assignment, Group, assign_group, explain_group
from zgul.languages.language import Language, find
from zgul.languages.relatedness import feature_names, feature_source, features, most_related, similarity

__all__ = ["GROUPS", "SOURCES", "TARGETS", "Assignment", "Group", "Language", "assign_group", "explain_group"]
__all__ += ["feature_names", "feature_source", "features", "find", "most_related", "similarity"]
