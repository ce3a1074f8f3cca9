//! The rules that most kinds follow, as data. A kind with a rule of its own has its own `Strategy` and hands the rest on to
//! its [`Rules`].

use generic_server::resource::Strategy;
use machinery::meta::names::{self, NameRule};

/// What a kind's strategy says without logic.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Has a status that only the status subresource writes.
    pub(crate) status: bool,
    /// The members below which a change counts in `metadata.generation`.
    pub(crate) generation: Option<&'static [&'static str]>,
    /// Which names the kind allows.
    pub(crate) names: NameRule,
    /// PUT of an object that does not exist creates it.
    pub(crate) create_on_update: bool,
    /// PUT without a resourceVersion overwrites.
    pub(crate) unconditional_update: bool,
    /// A DELETE without a propagation policy leaves dependents alone.
    pub(crate) orphans: bool,
}

/// `generation` of kinds that count changes of their spec.
pub(crate) const SPEC: &[&str] = &["spec"];

impl Rules {
    /// A kind without status and generation, named by an RFC 1123 subdomain.
    pub(crate) const PLAIN: Rules = Rules {
        status: false,
        generation: None,
        names: names::name_is_dns_subdomain,
        create_on_update: false,
        unconditional_update: true,
        orphans: false,
    };
    /// A kind with a status.
    pub(crate) const STATUS: Rules = Rules { status: true, ..Rules::PLAIN };
    /// A kind with a status and a spec whose changes count.
    pub(crate) const WORKLOAD: Rules = Rules { generation: Some(SPEC), ..Rules::STATUS };
    /// A kind with a spec whose changes count, and no status.
    pub(crate) const COUNTED: Rules = Rules { generation: Some(SPEC), ..Rules::PLAIN };

    /// With updates only of the version that the client has seen.
    pub(crate) const fn conditional(mut self) -> Self {
        self.unconditional_update = false;
        self
    }

    /// With objects that PUT creates.
    pub(crate) const fn create_on_update(mut self) -> Self {
        self.create_on_update = true;
        self
    }

    /// With another rule for names.
    pub(crate) const fn names(mut self, rule: NameRule) -> Self {
        self.names = rule;
        self
    }

    /// With changes below other members counted.
    pub(crate) const fn counts(mut self, members: &'static [&'static str]) -> Self {
        self.generation = Some(members);
        self
    }
}

impl Strategy for Rules {
    fn has_status(&self) -> bool {
        self.status
    }

    fn generation_fields(&self) -> Option<&'static [&'static str]> {
        self.generation
    }

    fn name_rule(&self) -> NameRule {
        self.names
    }

    fn allow_create_on_update(&self) -> bool {
        self.create_on_update
    }

    fn allow_unconditional_update(&self) -> bool {
        self.unconditional_update
    }

    fn orphans_by_default(&self) -> bool {
        self.orphans
    }
}
