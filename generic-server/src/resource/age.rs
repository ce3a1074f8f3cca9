//! Durations as people read them in tables: `45s`, `3m20s`, `5d3h`, `2y45d`.

use machinery::{
    Value,
    meta::{TimeForm, Timestamp},
};

/// The time since an object was made, as a table's cell; `<unknown>` if it does not say.
pub fn age(object: &Value, now: i64) -> Value {
    since(object.str_at(&["metadata", "creationTimestamp"]), now).into()
}

/// The time since a timestamp; `<unknown>` if there is none.
pub fn since(timestamp: Option<&str>, now: i64) -> String {
    match timestamp.and_then(|text| Timestamp::parse(text, TimeForm::Seconds).ok()) {
        Some(at) => human_duration(now - at.seconds()),
        None => "<unknown>".to_owned(),
    }
}

/// A duration of so many seconds with two units at most, and the second one only where it still tells something.
pub fn human_duration(seconds: i64) -> String {
    // Clocks of two machines may differ by a little.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |a: i64, unit: char, b: i64, less: char| {
        if b == 0 { format!("{a}{unit}") } else { format!("{a}{unit}{b}{less}") }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::human_duration;

    #[test]
    fn durations_read_like_upstreams() {
        for (seconds, want) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (66_960_000, "2y45d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human_duration(seconds), want, "{seconds}");
        }
    }
}
