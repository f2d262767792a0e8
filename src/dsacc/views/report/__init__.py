"""The page of a study: what was found first, then everything it rests on."""

from dsacc.views.report.page import write_report

__all__ = ["write_report"]
