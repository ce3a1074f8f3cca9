//! Any text is read or refused as a selector, a quantity, a duration, a time or a pattern, as a query, an Accept header, a
//! Content-Type or a continue token; what is read is written as a text that says the same. The readers of requests are
//! included by their files, which know nothing of the server around them.
#![no_main]

#[path = "../../../src/handlers/continuation.rs"]
#[allow(dead_code)] // this and the next: what the server alone calls
mod continuation;
#[path = "../../../src/negotiate.rs"]
#[allow(dead_code)]
mod negotiate;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use continuation::Continuation;
use libfuzzer_sys::fuzz_target;
use machinery::meta::{FieldSelector, GoDuration, GroupVersion, LabelSelector, Quantity, TimeForm, Timestamp};
use machinery::request::Query;
use machinery::schema::Pattern;
use negotiate::{Form, Media, Offer, negotiate};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(selector) = LabelSelector::parse(text) {
        assert_eq!(LabelSelector::parse(&selector.to_string()).as_ref(), Ok(&selector));
        let _ = selector.matches_with(|key| (key.len() % 2 == 0).then_some("1"));
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let again = FieldSelector::parse(&selector.to_string()).expect("a selector");
        assert_eq!(sorted(&again), sorted(&selector)); // terms stand in the order of their texts
    }
    if let Ok(quantity) = Quantity::parse(text) {
        let canonical = quantity.text();
        assert_eq!(Quantity::parse(&canonical).expect("a quantity").text(), canonical);
    }
    if let Ok(duration) = GoDuration::parse(text) {
        assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
    }
    for form in [TimeForm::Seconds, TimeForm::Micros] {
        if let Ok(time) = Timestamp::parse(text, form) {
            let written = time.text(form);
            assert_eq!(Timestamp::parse(&written, form).expect("a time").text(form), written);
        }
    }
    let _ = GroupVersion::parse(text);
    request(text);
    if text.len() < 200 && text.starts_with('^') {
        let _ = Pattern::new(text.into()).regex();
    }
});

/// What stands around a request's body.
fn request(text: &str) {
    let query = Query::parse(text);
    for pair in text.split(['&', ';']) {
        let key = pair.split('=').next().unwrap_or("");
        assert_eq!(query.has(key), query.all(key).next().is_some());
        let _ = query.flag(key);
    }
    if let Some(bytes) = machinery::request::strict_percent_decode(text) {
        assert!(bytes.len() <= text.len());
    }
    for offer in [Offer::OBJECTS, Offer::CUSTOM, Offer::PLAIN, Offer::DISCOVERY, Offer::JSON] {
        let Some(accepted) = negotiate(Some(text), None, None, &offer) else { continue };
        assert!(offer.media.contains(&accepted.media) || offer.cbor && accepted.media == Media::Cbor);
        assert!(offer.transforms || matches!(accepted.form, Form::Whole | Form::Aggregated));
        let _ = offer.has_media(text);
    }
    let _ = Media::of_content_type(Some(text), Offer::OBJECTS.media);
    // Either the token, or what a token holds: nobody guesses base64.
    for token in [text.to_owned(), URL_SAFE_NO_PAD.encode(text)] {
        if let Ok(open) = Continuation::open(&token) {
            assert!(open.start.split('/').all(|part| part != ".."));
            if !open.start.is_empty() {
                assert_eq!(Continuation::open(&open.token()).as_ref().ok(), Some(&open));
            }
        }
    }
}

fn sorted(selector: &FieldSelector) -> Vec<(&str, &str, bool)> {
    let mut terms: Vec<_> = selector.terms().iter().map(|t| (&*t.field, &*t.value, t.equal)).collect();
    terms.sort_unstable();
    terms
}
