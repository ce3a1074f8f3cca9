//! Any text is read or refused as a selector, a quantity, a duration a time or a pattern; what is read is written as a text that
//! says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machinery::meta::{FieldSelector, GoDuration, GroupVersion, LabelSelector, Quantity, TimeForm, Timestamp};
use machinery::schema::Pattern;

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
    if text.len() < 200 && text.starts_with('^') {
        let _ = Pattern::new(text.into()).regex();
    }
});

fn sorted(selector: &FieldSelector) -> Vec<(&str, &str, bool)> {
    let mut terms: Vec<_> = selector.terms().iter().map(|t| (&*t.field, &*t.value, t.equal)).collect();
    terms.sort_unstable();
    terms
}
