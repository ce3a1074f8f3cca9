//! The locks of the cache's concurrent core: the standard ones, or shuttle's when its interleavings are explored
//! (`cargo test -p storage --features shuttle`).

#[cfg(not(feature = "shuttle"))]
use std::sync as imp;

#[cfg(feature = "shuttle")]
use shuttle::sync as imp;

pub(super) use imp::atomic::{AtomicU64, AtomicUsize, Ordering};
use imp::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A mutex that a panic elsewhere does not poison: what it guards is consistent between any two statements.
#[derive(Debug, Default)]
pub(super) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Mutex(imp::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A readers-writer lock that a panic elsewhere does not poison.
#[derive(Debug, Default)]
pub(super) struct RwLock<T>(imp::RwLock<T>);

impl<T> RwLock<T> {
    pub(super) fn new(value: T) -> Self {
        RwLock(imp::RwLock::new(value))
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(|e| e.into_inner())
    }
}
