//! Continue tokens: where a list that was sent in part goes on.

use base64::{
    Engine, alphabet,
    engine::general_purpose::{GeneralPurpose, NO_PAD},
};
use machinery::{Value, codec::json, meta::status::Status, object};

/// As Go reads and writes base64: bits left over at the end do not matter.
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// A continue token, opened.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Continuation {
    /// The revision to go on at; none means the latest (an inconsistent rest).
    pub revision: Option<u64>,
    /// Where to go on, below the collection's prefix.
    pub start: String,
}

impl Continuation {
    /// The token.
    pub(super) fn token(&self) -> String {
        let revision = self.revision.map_or(-1, |r| r as i64);
        let value = object! { "v" => "meta.k8s.io/v1", "rv" => revision, "start" => self.start.as_str() };
        URL_SAFE.encode(json::encode(&value))
    }

    /// Opens a token; the error is the answer to the request that brought it.
    pub(super) fn open(token: &str) -> Result<Self, Status> {
        let bad =
            |why: String| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE.decode(token).map_err(|e| match e {
            base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
                bad(format!("illegal base64 data at input byte {at}"))
            }
            // What is left of a group of four.
            _ => bad(format!("illegal base64 data at input byte {}", token.len() - token.len() % 4)),
        })?;
        let value = json::decode(&bytes).map_err(|e| bad(e.to_string()))?;
        let start = value.str_at(&["start"]).unwrap_or("");
        match value.str_at(&["v"]).unwrap_or("") {
            "meta.k8s.io/v1" => {}
            other => {
                return Err(bad(format!("server does not recognize this encoded version {other}")));
            }
        }
        let revision = value.get("rv").and_then(Value::as_i64).unwrap_or(0);
        if revision == 0 {
            return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into()));
        }
        if start.is_empty() {
            return Err(bad("encoded start key empty (version meta.k8s.io/v1)".into()));
        }
        // It stays below the collection's prefix, whatever it says: it must be as Go's path.Clean would leave it.
        let below = start.strip_prefix('/').unwrap_or(start);
        if !below.is_empty() && below.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad(start.to_owned()));
        }
        Ok(Continuation { revision: u64::try_from(revision).ok(), start: below.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_below_its_collection() {
        let open = |start: &str| {
            let token = Continuation { revision: Some(7), start: start.to_owned() }.token();
            Continuation::open(&token).map(|c| c.start).ok()
        };
        for (start, expect) in [
            ("a", Some("a")),
            ("ns/a\0", Some("ns/a\0")),
            ("/a", Some("a")),
            ("/", Some("")),
            ("", None),
            ("..", None),
            ("a/../../b", None),
            ("./a", None),
            ("a//b", None),
            ("//a", None),
            ("a/", None),
        ] {
            assert_eq!(open(start).as_deref(), expect, "{start:?}");
        }
    }

    #[test]
    fn an_inconsistent_rest_has_no_revision() {
        let rest = Continuation { revision: None, start: "a".into() };
        assert_eq!(Continuation::open(&rest.token()).ok(), Some(rest));
    }
}
