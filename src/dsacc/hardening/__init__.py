"""From any agent to a student that keeps its score under shifts that it never saw."""

from dsacc.hardening.distil import harden

__all__ = ["harden"]
