//! Secrets and service accounts.

use generic_server::resource::WriteContext;
use machinery::{Value, object};

use crate::{
    defaults::{each, text},
    strategy::Rules,
};

/// The rules of secrets.
pub(super) const SECRETS: Rules = Rules::PLAIN.defaults(secret);

/// The rules of service accounts.
pub(super) const SERVICE_ACCOUNTS: Rules = Rules { create, update, ..Rules::PLAIN.returns_deleted() };

/// `stringData` is for writing only: what it holds becomes data.
fn secret(secret: &mut Value) {
    text(secret, "type", "Opaque");
    let Some(texts) = secret.make_object().remove("stringData") else { return };
    let data = secret.at_mut(&["data"]).make_object();
    for (key, value) in texts.as_object().into_iter().flatten() {
        data.insert(key.clone(), base64(value.as_str().unwrap_or_default().as_bytes()));
    }
    if data.is_empty() {
        secret.make_object().remove("data");
    }
}

/// Padded base64 of the standard alphabet.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() { letter as char } else { '=' });
        }
    }
    out
}

fn create(_cx: &WriteContext<'_>, account: &mut Value) {
    each(account, "secrets", |secret| {
        *secret = object! { "name" => secret.str_at(&["name"]).unwrap_or_default() };
    });
}

fn update(cx: &WriteContext<'_>, new: &mut Value, _old: &Value) {
    create(cx, new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_data_and_win_over_it() {
        let mut v = object! {
            "data" => object! { "a" => "b2xk", "b" => "a2VwdA==" },
            "stringData" => object! { "a" => "new", "c" => "" },
        };
        secret(&mut v);
        let data = object! { "a" => "bmV3", "b" => "a2VwdA==", "c" => "" };
        assert_eq!(v, object! { "data" => data, "type" => "Opaque" });
    }

    #[test]
    fn base64_is_padded() {
        let check = |text: &str, expect: &str| assert_eq!(base64(text.as_bytes()), expect);
        check("", "");
        check("f", "Zg==");
        check("fo", "Zm8=");
        check("foo", "Zm9v");
        check("foob", "Zm9vYg==");
    }
}
