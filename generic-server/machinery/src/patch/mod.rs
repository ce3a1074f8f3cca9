//! Patches: JSON Patch, JSON Merge Patch, Strategic Merge Patch, server-side apply.
