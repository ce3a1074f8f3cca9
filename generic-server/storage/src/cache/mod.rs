//! The watch cache: every resource's objects as immutable snapshots, and a window of recent events.
