//! The controllers in this process.

use std::path::PathBuf;

use controllers::Selection;

use super::Findings;
use crate::flags::Parsed;

/// Which controllers run, and with what.
#[derive(Clone, Debug, Default)]
pub struct Controllers {
    /// `--controllers`.
    pub selection: Selection,
    /// `--root-ca-file`.
    pub root_ca: Option<PathBuf>,
}

impl Controllers {
    pub(super) fn from_flags(flags: &Parsed, findings: &mut Findings) -> Self {
        let selection = Selection::parse(&flags.list("controllers")).unwrap_or_else(|unknown| {
            findings.errors.extend(unknown);
            Selection::default()
        });
        Controllers { selection, root_ca: findings.file(flags, "root-ca-file") }
    }
}
