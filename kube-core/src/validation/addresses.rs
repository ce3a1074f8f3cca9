//! Addresses and networks in fields that were once less strict: what an object already has, it may keep.

use std::collections::HashSet;

use machinery::meta::ip::{self, IpRules};

use super::{Errors, Field};

const STRICT: IpRules = IpRules { sloppy: false, canonical: false, family: None };
const SLOPPY: IpRules = IpRules { sloppy: true, ..STRICT };

fn rules(old: &HashSet<&str>, text: &str, errors: &Errors) -> IpRules {
    if old.contains(text) || !errors.has("StrictIPCIDRValidation") { SLOPPY } else { STRICT }
}

impl Field<'_> {
    /// The text is an address, or one of those that the old object has here. Answers whether it is.
    pub(crate) fn address_or_old(&self, old: &HashSet<&str>, errors: &mut Errors) -> bool {
        let rules = rules(old, self.text(), errors);
        let before = errors.len();
        self.check(|text| ip::ip(text, rules), errors);
        errors.len() == before
    }

    /// The text, without the spaces around it, is a network, or one of those that the old object has here.
    pub(crate) fn network_or_old(&self, old: &HashSet<&str>, errors: &mut Errors) {
        let text = self.text().trim();
        let rules = rules(old, text, errors);
        for message in ip::cidr(text, rules) {
            self.invalid_as(text, message, errors);
        }
    }

    /// The texts of the list.
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.items().iter().filter_map(machinery::Value::as_str).collect()
    }
}
