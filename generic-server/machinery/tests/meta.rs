//! What holds of names, selectors, quantities, times and durations for any text and any number.

use std::cmp::Ordering;

use machinery::meta::quantity::MILLI;
use machinery::meta::selector::Operator;
use machinery::meta::{FieldSelector, GoDuration, LabelSelector, Quantity, TimeForm, Timestamp, go_text, ip, names};
use machinery::{Map, Str, Value};
use proptest::prelude::*;

/// Texts that are quantities: all signs, suffixes and lengths.
fn quantity_text() -> impl Strategy<Value = String> {
    let suffix = prop_oneof![
        Just(""),
        Just("n"),
        Just("u"),
        Just("m"),
        Just("k"),
        Just("M"),
        Just("G"),
        Just("T"),
        Just("P"),
        Just("E"),
        Just("Ki"),
        Just("Mi"),
        Just("Gi"),
        Just("Ti"),
        Just("Pi"),
        Just("Ei"),
        Just("e3"),
        Just("E-2"),
        Just("e+7"),
    ];
    ("[+-]?", "[0-9]{1,24}", "(\\.[0-9]{0,14})?", suffix)
        .prop_map(|(sign, n, f, suffix)| format!("{sign}{n}{f}{suffix}"))
}

fn quantity() -> impl Strategy<Value = Quantity> {
    quantity_text().prop_map(|text| Quantity::parse(&text).expect("made to be a quantity"))
}

/// Quantities that come from few digits, so that their sums are exact.
fn small_quantity() -> impl Strategy<Value = Quantity> {
    (-1_000_000_000i64..1_000_000_000, prop_oneof![Just("m"), Just(""), Just("k"), Just("Ki"), Just("e3")])
        .prop_map(|(n, suffix)| Quantity::parse(&format!("{n}{suffix}")).expect("a quantity"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_quantity_reads_back_as_itself(q in quantity()) {
        let text = q.text();
        let again = Quantity::parse(&text).expect("its own text");
        prop_assert_eq!(&again, &q);
        prop_assert_eq!(again.text(), text);
    }

    #[test]
    fn quantities_are_ordered_like_their_numbers(a in quantity(), b in quantity()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        if a < b {
            prop_assert!(a.value() <= b.value() && a.milli_value() <= b.milli_value());
        }
        let mut difference = a.clone();
        difference.sub(&b);
        let sign = match a.cmp(&b) { Ordering::Less => -1, Ordering::Equal => 0, Ordering::Greater => 1 };
        prop_assert_eq!(difference.sign(), sign);
    }

    #[test]
    fn sums_and_differences_cancel(a in small_quantity(), b in small_quantity()) {
        let mut sum = a.clone();
        sum.add(&b);
        let mut other = b.clone();
        other.add(&a);
        prop_assert_eq!(&sum, &other);
        sum.sub(&b);
        prop_assert_eq!(&sum, &a);
        let mut zero = b.clone();
        zero.neg();
        zero.add(&b);
        prop_assert!(zero.is_zero());
    }

    #[test]
    fn rounding_goes_away_from_zero(q in quantity()) {
        let mut rounded = q.clone();
        let exact = rounded.round_up(MILLI);
        prop_assert_eq!(exact, rounded == q);
        match q.sign() {
            -1 => prop_assert!(rounded <= q),
            _ => prop_assert!(rounded >= q),
        }
        prop_assert_eq!(rounded.milli_value(), q.milli_value());
    }

    #[test]
    fn no_text_breaks_a_reader(text in any::<String>()) {
        let _ = (Quantity::parse(&text), GoDuration::parse(&text), LabelSelector::parse(&text), FieldSelector::parse(&text));
        let _ = (Timestamp::parse(&text, TimeForm::Seconds), Timestamp::parse(&text, TimeForm::Micros));
        let _ = (ip::ip(&text, ip::IpRules::default()), ip::cidr_warnings("x", &text), names::qualified_name(&text));
        for rule in [names::name_is_dns_label, names::name_is_dns_subdomain, names::name_is_path_segment] {
            rule(&text, true);
        }
        prop_assert!(names::generate_name(&text).len() <= 63);
    }

    #[test]
    fn nearly_right_texts_break_no_reader(
        quantity in "[-+.0-9eEikMG]{0,12}",
        selector in "[a-c!=<>(), \u{0}]{0,16}",
        fields in "[a-b=!,\\\\]{0,12}",
        time in "20[0-9]{2}-[0-9]{1,2}-[0-9]{2}T[0-9:.Z+]{0,20}",
        address in "[0-9a-f:.]{0,20}(/[0-9]{0,4})?",
    ) {
        let _ = (Quantity::parse(&quantity), GoDuration::parse(&quantity), ip::ip(&address, ip::IpRules::default()));
        let _ = (ip::cidr(&address, ip::IpRules::default()), ip::ip_warning("x", &address), ip::non_special_ip(&address));
        let _ = (Timestamp::parse(&time, TimeForm::Seconds), Timestamp::parse(&time, TimeForm::Micros));
        if let Ok(selector) = LabelSelector::parse(&selector) {
            let text = selector.to_string();
            prop_assert_eq!(LabelSelector::parse(&text).expect("its own text"), selector, "{}", text);
        }
        if let Ok(selector) = FieldSelector::parse(&fields) {
            // terms are sorted as they were written, which with `==` need not be their order in the normal form
            let again = FieldSelector::parse(&selector.to_string()).expect("its own text");
            prop_assert_eq!(again.terms().len(), selector.terms().len());
            prop_assert!(selector.terms().iter().all(|t| again.terms().contains(t)));
        }
    }

    #[test]
    fn a_duration_reads_back_as_itself(nanoseconds in any::<i64>()) {
        let duration = GoDuration { nanoseconds };
        prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
    }

    #[test]
    fn a_time_reads_back_as_itself(seconds in -62_167_219_200i64..253_402_300_800, micros in 0u32..1_000_000) {
        let time = Timestamp::new(seconds, micros * 1000);
        prop_assert_eq!(Timestamp::parse(&time.text(TimeForm::Micros), TimeForm::Micros), Ok(time));
        prop_assert_eq!(Timestamp::parse(&time.to_string(), TimeForm::Seconds), Ok(time.truncated()));
    }

    #[test]
    fn a_selector_matches_what_each_requirement_says(
        text in "(a|b|!a|!b|a=x|a!=x|b in \\(x,y\\)|b notin \\(x\\)|a>1|b<3)(,(a|b|!b|a==2|b!=y|a notin \\(2,x\\))){0,2}",
        labels in proptest::collection::btree_map("[ab]", "x|y|1|2|3", 0..3),
    ) {
        let selector = LabelSelector::parse(&text).expect("made to be a selector");
        let map: Map = labels.iter().map(|(k, v)| (Str::from(k), Value::from(v.as_str()))).collect();
        let expected = selector.requirements().iter().all(|r| {
            let label = labels.get(r.key().as_str());
            let listed = label.is_some_and(|v| r.values().iter().any(|w| w == v));
            let number = label.and_then(|v| v.parse::<i64>().ok());
            let bound = r.values().first().and_then(|v| v.parse::<i64>().ok());
            match r.operator() {
                Operator::Exists => label.is_some(),
                Operator::DoesNotExist => label.is_none(),
                Operator::In | Operator::Equals | Operator::DoubleEquals => listed,
                Operator::NotIn | Operator::NotEquals => !listed,
                Operator::GreaterThan => number.is_some() && number > bound,
                Operator::LessThan => number.is_some() && number < bound,
            }
        });
        prop_assert_eq!(selector.matches(Some(&map)), expected);
    }

    #[test]
    fn quoted_text_is_printable(text in any::<String>()) {
        let quoted = go_text::quote(&text);
        prop_assert!(quoted.chars().all(go_text::is_print), "{}", quoted);
    }
}
