//! Audit levels.

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// Who, what, when, and what came of it.
    Metadata,
    /// The same and the object that was sent.
    Request,
    /// The same and the object that was answered.
    RequestResponse,
}

impl Level {
    /// All levels.
    pub const ALL: [Level; 4] = [Level::None, Level::Metadata, Level::Request, Level::RequestResponse];

    /// As policies and events write it.
    pub const fn name(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}
