"""Policies that are ready-made, and policies out of files."""

from windlass.runtime.api.policy import ALLOW_ALL, PRESETS, READ_ONLY, SANDBOXED, WORKSPACE_WRITE
from windlass.runtime.bind.policy_files import BadPolicyFile, load_policy

__all__ = ["ALLOW_ALL", "PRESETS", "READ_ONLY", "SANDBOXED", "WORKSPACE_WRITE", "BadPolicyFile", "load_policy"]
