//! An event as one line of text: `--audit-log-format=legacy`.

use std::fmt::Write as _;

use machinery::{
    Str,
    meta::{go_text::quote, time::Timestamp},
};

use super::Event;

impl Event {
    /// The line, with its line feed.
    pub(crate) fn legacy(&self) -> String {
        let none = || "<none>".to_owned();
        let (mut user, mut groups) = (none(), none());
        if !self.user.name.is_empty() {
            user = self.user.name.to_string();
            if !self.user.groups.is_empty() {
                groups = quoted(&self.user.groups);
            }
        }
        let (as_user, as_groups) = match &self.impersonated {
            None => ("<self>".to_owned(), "<lookup>".to_owned()),
            Some((user, _)) if user.groups.is_empty() => (user.name.to_string(), "<lookup>".to_owned()),
            Some((user, _)) => (user.name.to_string(), quoted(&user.groups)),
        };
        let namespace = self.object.as_ref().map(|object| &object.namespace).filter(|namespace| !namespace.is_empty());
        let answered = self.code != 0 || self.status.is_some();
        let response = if answered { self.code.to_string() } else { "<deferred>".to_owned() };
        let ip = self.source_ips.first().map_or_else(|| "<unknown>".to_owned(), ToString::to_string);
        let mut line = time(self.received.unwrap_or(Timestamp::ZERO)) + " AUDIT:";
        let mut add = |key: &str, value: &str| {
            let _ = write!(line, " {key}={}", quote(value)); // a string takes everything
        };
        add("id", &self.id);
        add("stage", self.stage.name());
        add("ip", &ip);
        add("method", &self.verb);
        add("user", &user);
        add("groups", &groups);
        add("as", &as_user);
        add("asgroups", &as_groups);
        add("user-agent", &self.user_agent);
        add("namespace", namespace.map_or("<none>", Str::as_str));
        add("uri", &self.uri);
        line + " response=\"" + &response + "\"\n"
    }
}

fn quoted(texts: &[Str]) -> String {
    texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(",")
}

/// RFC 3339 with as many digits of the fraction as it has.
fn time(time: Timestamp) -> String {
    let mut text = time.text(machinery::meta::time::TimeForm::Seconds);
    if time.nanos() > 0 {
        text.pop();
        let digits = format!("{:09}", time.nanos());
        let _ = write!(text, ".{}Z", digits.trim_end_matches('0'));
    }
    text
}
