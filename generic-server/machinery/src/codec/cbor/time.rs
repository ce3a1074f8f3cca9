//! Points in time that tags mark: texts of RFC 3339, and seconds since 1970. Without a type they become texts with the
//! digits of a second's fraction that are there.

use super::error::CborError;
use super::head::*;
use super::scalar;
use crate::meta::{TimeForm, Timestamp};

/// The time of a text, in its own zone.
pub(super) fn of_text(text: &str) -> Result<String, CborError> {
    let time = Timestamp::parse(text, TimeForm::Seconds)
        .map_err(|error| CborError::Other(format!("cbor: cannot set {text} for time.Time: {error}")))?;
    let zone = text.len().checked_sub(6).and_then(|at| text.get(at..)).filter(|zone| zone.starts_with(['+', '-']));
    let Some((zone, seconds)) = zone.and_then(|zone| Some((zone, offset(zone)?))).filter(|(_, seconds)| *seconds != 0)
    else {
        return Ok(shown(time, "Z"));
    };
    Ok(shown(time.plus_seconds(seconds), zone))
}

/// How many seconds a zone, `+01:00`, is before the common time.
fn offset(zone: &str) -> Option<i64> {
    let (hours, minutes) = (zone.get(1..3)?.parse::<i64>().ok()?, zone.get(4..6)?.parse::<i64>().ok()?);
    let seconds = hours * 3600 + minutes * 60;
    Some(if zone.starts_with('-') { -seconds } else { seconds })
}

/// The time of a number of seconds.
pub(super) fn of_number(head: Head) -> Result<String, CborError> {
    let (seconds, nanos) = match head.float() {
        Some(f) => {
            let nanos = (f.fract() * 1e9) as i64;
            (f.trunc() as i64 + nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000))
        }
        None => (scalar::integer(head).map_err(of_time)?, 0),
    };
    if !(FIRST..=LAST).contains(&seconds) {
        return Err(CborError::Other(
            "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: Time.MarshalText: \
             year outside of range [0,9999]"
                .into(),
        ));
    }
    Ok(shown(Timestamp::new(seconds, nanos as u32), "Z"))
}

/// The seconds of the years 0 to 9999.
const FIRST: i64 = -62_167_219_200;
const LAST: i64 = 253_402_300_799;

/// The same error where a time was wanted.
fn of_time(error: CborError) -> CborError {
    match error {
        CborError::Type(mut mismatch) => {
            mismatch.wanted = "time.Time".into();
            CborError::Type(mismatch)
        }
        other => other,
    }
}

fn shown(time: Timestamp, zone: &str) -> String {
    let mut text = time.truncated().text(TimeForm::Seconds);
    text.pop(); // the Z
    if time.nanos() > 0 {
        let digits = format!("{:09}", time.nanos());
        text.push('.');
        text.push_str(digits.trim_end_matches('0'));
    }
    text + zone
}
