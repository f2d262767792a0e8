"""The page of a study: first what was found, then everything it rests on."""

from dsacc.views.report.page import write_report

__all__ = ["write_report"]
