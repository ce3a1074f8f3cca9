//! Configuration of metrics: which are shown.

use std::collections::BTreeSet;

use generic_server::metrics::ShownMetrics;
use machinery::codec::yaml;

use super::Findings;
use crate::flags::Parsed;

/// What the flags say of metrics.
pub(super) fn shown(flags: &Parsed, findings: &mut Findings) -> ShownMetrics {
    let mut shown =
        ShownMetrics { disabled: flags.list("disabled-metrics").into_iter().collect(), ..Default::default() };
    let manifest = flags.text("allow-metric-labels-manifest");
    if !manifest.is_empty() {
        match read(&manifest) {
            Ok(pairs) => pairs.into_iter().for_each(|(key, values)| allow(&mut shown, &key, &values, findings)),
            Err(why) => findings.error(format!("--allow-metric-labels-manifest: {manifest}: {why}")),
        }
    }
    for (key, values) in flags.map("allow-metric-labels") {
        allow(&mut shown, &key, &values, findings);
    }
    let hidden = flags.text("show-hidden-metrics-for-version");
    let before = previous_minor();
    if !hidden.is_empty() && hidden != before {
        findings.error(format!(
            "metrics.showHiddenMetricsForVersion: Invalid value: {hidden:?}: must be omitted or have the value '{before}'; only the \
             previous minor version is allowed"
        ));
    }
    shown
}

/// The minor version before this one: no metric was hidden since.
fn previous_minor() -> String {
    let mut parts = env!("CARGO_PKG_VERSION").split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{major}.{}", minor.parse::<u32>().map_or(0, |minor| minor.saturating_sub(1)))
}

/// `FAMILY,LABEL` may have these values, which commas part.
fn allow(shown: &mut ShownMetrics, key: &str, values: &str, findings: &mut Findings) {
    let Some((family, label)) = key.split_once(',').filter(|(family, label)| !family.is_empty() && !label.is_empty())
    else {
        return findings.error(format!("--allow-metric-labels: {key:?} is not of the form metric,label"));
    };
    let values: BTreeSet<String> = values.split(',').map(str::trim).map(str::to_owned).collect();
    shown.allowed.insert((family.trim().to_owned(), label.trim().to_owned()), values);
}

/// The pairs of a manifest.
fn read(path: &str) -> Result<Vec<(String, String)>, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let document = yaml::decode(&text).map_err(|error| error.to_string())?;
    let members = document.as_object().ok_or("is no map of texts")?;
    let pair = |(key, value): &(machinery::Str, machinery::Value)| {
        let value = value.as_str().ok_or_else(|| format!("the value of {key:?} is no text"))?;
        Ok((key.to_string(), value.to_owned()))
    };
    members.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;

    fn check(arguments: &[&str]) -> (ShownMetrics, Vec<String>) {
        let flags = parse(arguments.iter().map(Into::into)).expect("flags");
        let mut findings = Findings::default();
        let shown = shown(&flags, &mut findings);
        (shown, findings.errors)
    }

    #[test]
    fn labels_are_limited_by_family() {
        let (shown, errors) = check(&["--allow-metric-labels=a_total,user=ann,bob", "--disabled-metrics=b,c"]);
        assert!(errors.is_empty(), "{errors:?}");
        assert!(shown.allowed.contains_key(&("a_total".to_owned(), "user".to_owned())), "{shown:?}");
        assert_eq!(shown.disabled, BTreeSet::from(["b".to_owned(), "c".to_owned()]));
        assert!(check(&["--allow-metric-labels=a_total=ann"]).1[0].contains("a_total"));
        assert!(check(&["--show-hidden-metrics-for-version=1.35"]).1.is_empty());
        assert!(
            check(&["--show-hidden-metrics-for-version=1.30"]).1[0]
                .contains("must be omitted or have the value '1.35'")
        );
    }
}
