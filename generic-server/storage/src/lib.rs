//! Revisioned storage with etcd's semantics, and the watch cache above it
