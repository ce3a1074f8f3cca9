//! The kinds of flags, and how a value of each is read from text.

use std::{collections::BTreeMap, net::IpAddr};

use super::go::{GoDuration, parse_bool, parse_duration, parse_float, parse_int};

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    String,
    Int,
    Float,
    Float32,
    Duration,
    Ip,
    /// Comma separated; given again, it adds.
    Strings,
    /// One value each time it is given.
    StringArray,
    /// `from-to`, `from+size` or one port.
    PortRange,
    /// `key=value,key`; given again, it adds.
    Map,
    /// `key=value`, commas and all; given again, it adds.
    Claims,
    /// `key=value,key=value`.
    StringToString,
    /// `Name=bool,component:Name=bool`.
    FeatureGates,
    Int32Slice,
    /// `cert,key` or `cert,key:name,name`.
    NamedCertKey,
    Level,
    Quantity,
    /// `module=level,module=level`.
    Pattern,
    Help,
    Version,
}

/// Inclusive ports; 0-0 when unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

/// One `--tls-sni-cert-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SniPair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) names: Vec<String>,
}

/// A value as typed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Text(String),
    Int(i64),
    Float(f64),
    Duration(GoDuration),
    Ip(Option<IpAddr>),
    List(Vec<String>),
    Ports(PortRange),
    Map(BTreeMap<String, String>),
    Ints(Vec<i64>),
    Pairs(Vec<SniPair>),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let joined = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(",");
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Duration(value) => {
                write!(f, "{}", machinery::meta::duration::GoDuration { nanoseconds: value.0 })
            }
            Self::Ip(value) => value.map_or(Ok(()), |ip| write!(f, "{ip}")),
            Self::List(values) => write!(f, "[{}]", values.join(",")),
            Self::Ports(range) => write!(f, "{}-{}", range.first, range.last),
            Self::Map(values) => f.write_str(&joined(&mut values.iter().map(|(key, value)| format!("{key}={value}")))),
            Self::Ints(values) => write!(f, "[{}]", joined(&mut values.iter().map(i64::to_string))),
            Self::Pairs(pairs) => {
                let pair = |pair: &SniPair| format!("{},{}", pair.certificate, pair.key);
                write!(f, "[{}]", pairs.iter().map(pair).collect::<Vec<_>>().join(";"))
            }
        }
    }
}

impl Kind {
    /// The kind's name in the help; booleans have none.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Bool | Self::Help => "",
            Self::String => "string",
            Self::Int => "int",
            Self::Float => "float",
            Self::Float32 => "float32",
            Self::Duration => "duration",
            Self::Ip => "ip",
            Self::Strings => "strings",
            Self::StringArray => "stringArray",
            Self::PortRange => "portRange",
            Self::Map | Self::Claims => "mapStringString",
            Self::StringToString => "stringToString",
            Self::FeatureGates => "colonSeparatedMultimapStringString",
            Self::Int32Slice => "int32Slice",
            Self::NamedCertKey => "namedCertKey",
            Self::Level => "Level",
            Self::Quantity => "quantity",
            Self::Pattern => "pattern=N,...",
            Self::Version => "version[=true]",
        }
    }

    /// The value of a flag that stands alone; `None`: it needs an argument.
    pub(crate) fn bare(self) -> Option<&'static str> {
        matches!(self, Self::Bool | Self::Help | Self::Version).then_some("true")
    }

    /// The value before the flag is given, from the table's text.
    pub(crate) fn default_value(self, default: &str) -> Result<Value, String> {
        let empty = match self {
            Self::Bool | Self::Help => "false",
            Self::Int | Self::Float | Self::Float32 | Self::Level => "0",
            Self::Duration => "0s",
            Self::Ip if default.is_empty() => return Ok(Value::Ip(None)),
            _ => "",
        };
        let text = default.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(default);
        let text = if text.is_empty() { empty } else { text };
        match self {
            Self::Strings | Self::StringArray if text.is_empty() => Ok(Value::List(Vec::new())),
            Self::Int32Slice if text.is_empty() => Ok(Value::Ints(Vec::new())),
            Self::NamedCertKey => Ok(Value::Pairs(Vec::new())),
            Self::Claims | Self::StringToString => Ok(Value::Map(BTreeMap::new())),
            _ => self.read(text),
        }
    }

    /// Reads a value that was typed.
    pub(crate) fn read(self, text: &str) -> Result<Value, String> {
        Ok(match self {
            Self::Bool | Self::Help => Value::Bool(parse_bool(text)?),
            Self::Int => Value::Int(parse_int(text, 64)?),
            Self::Level => Value::Int(parse_int(text, 32)?),
            Self::Float | Self::Float32 => Value::Float(parse_float(text)?),
            Self::Duration => Value::Duration(parse_duration(text)?),
            Self::Ip => Value::Ip(Some(read_ip(text)?)),
            Self::Strings => Value::List(read_list(text)?),
            Self::StringArray => Value::List(vec![text.to_owned()]),
            Self::PortRange => Value::Ports(read_ports(text)?),
            Self::Map => Value::Map(read_pairs(text, true)?),
            Self::Claims => match text.split_once('=') {
                Some((key, value)) => Value::Map(BTreeMap::from([(key.trim().to_owned(), value.trim().to_owned())])),
                None => return Err("malformed pair, expect string=string".to_owned()),
            },
            Self::StringToString => Value::Map(read_texts_by_name(text)?),
            Self::FeatureGates => Value::Map(read_gates(text)?),
            Self::Int32Slice => {
                Value::Ints(text.split(',').map(|part| parse_int(part.trim(), 32)).collect::<Result<_, _>>()?)
            }
            Self::NamedCertKey => Value::Pairs(vec![read_sni(text)?]),
            Self::Pattern => Value::Map(read_patterns(text)?),
            Self::Quantity => Value::Text(read_quantity(text)?),
            Self::Version => Value::Text(read_version(text)?),
            Self::String => Value::Text(text.to_owned()),
        })
    }
}

impl Value {
    /// Adds a value that was given again: lists and maps grow, the rest is replaced.
    pub(crate) fn add(&mut self, again: Self) {
        match (self, again) {
            (Self::List(list), Self::List(more)) => list.extend(more),
            (Self::Ints(list), Self::Ints(more)) => list.extend(more),
            (Self::Pairs(list), Self::Pairs(more)) => list.extend(more),
            (Self::Map(map), Self::Map(more)) => map.extend(more),
            (value, again) => *value = again,
        }
    }
}

fn read_ip(text: &str) -> Result<IpAddr, String> {
    text.trim().parse().map_err(|_| format!("failed to parse IP: {text:?}"))
}

/// One line of CSV: commas separate, double quotes protect commas.
fn read_list(text: &str) -> Result<Vec<String>, String> {
    let mut list = Vec::new();
    let mut rest = text;
    if rest.is_empty() {
        return Ok(list);
    }
    loop {
        let field;
        if let Some(quoted) = rest.strip_prefix('"') {
            let (value, after) = read_quoted(quoted).ok_or("parse error: extraneous or missing \" in quoted-field")?;
            list.push(value);
            field = after;
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            if rest[..end].contains('"') {
                return Err("parse error: bare \" in non-quoted-field".to_owned());
            }
            list.push(rest[..end].to_owned());
            field = &rest[end..];
        }
        match field.strip_prefix(',') {
            Some(after) => rest = after,
            None if field.is_empty() => return Ok(list),
            None => return Err("parse error: extraneous or missing \" in quoted-field".to_owned()),
        }
    }
}

/// What a quoted field holds (`""` is a quote), and what follows it.
fn read_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        value.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                value.push('"');
                rest = after;
            }
            None => return Some((value, rest)),
        }
    }
}

fn read_ports(text: &str) -> Result<PortRange, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(PortRange { first: 0, last: 0 });
    }
    let port = |text: &str| match text.trim().parse::<u32>() {
        Ok(port) if port <= 65_535 => Ok(port as u16),
        Ok(_) => Err(format!("the port range cannot be greater than 65535: {text}")),
        Err(_) => Err(format!("unable to parse port: {text:?}")),
    };
    let (first, last) = if let Some((first, last)) = text.split_once('-') {
        (port(first)?, port(last)?)
    } else if let Some((first, size)) = text.split_once('+') {
        let (first, size) = (port(first)?, port(size)?);
        (first, first.checked_add(size).ok_or("the port range cannot be greater than 65535")?)
    } else {
        (port(text)?, port(text)?)
    };
    if first > last {
        return Err(format!("end port cannot be less than start port: {first} > {last}"));
    }
    Ok(PortRange { first, last })
}

fn read_pairs(text: &str, value_optional: bool) -> Result<BTreeMap<String, String>, String> {
    let mut map = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some((key, value)) => map.insert(key.trim().to_owned(), value.trim().to_owned()),
            None if value_optional => map.insert(pair.to_owned(), String::new()),
            None => return Err(format!("{pair} must be formatted as key=value")),
        };
    }
    Ok(map)
}

/// One pair, in which commas are text, or a line of CSV with several.
fn read_texts_by_name(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pairs = match text.matches('=').count() {
        0 => return Err(format!("{text} must be formatted as key=value")),
        1 => vec![text.trim_matches('"').to_owned()],
        _ => read_list(text)?,
    };
    let split = |pair: &String| {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("{pair} must be formatted as key=value"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    pairs.iter().map(split).collect()
}

fn read_gates(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut map = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| format!("malformed pair, expect string=string: {pair}"))?;
        let name = match key.trim().split_once(':') {
            None => key.trim(),
            Some(("kube", name)) => name,
            Some((component, _)) => return Err(format!("component not registered: {component}")),
        };
        let value = value.trim();
        parse_bool(value).map_err(|error| format!("invalid value of {name}={value}, err: {error}"))?;
        map.insert(name.to_owned(), value.to_owned());
    }
    Ok(map)
}

fn read_sni(text: &str) -> Result<SniPair, String> {
    let (files, names) = text.split_once(':').unwrap_or((text, ""));
    match files.split(',').collect::<Vec<_>>()[..] {
        [certificate, key] if !certificate.is_empty() && !key.is_empty() => Ok(SniPair {
            certificate: certificate.trim().to_owned(),
            key: key.trim().to_owned(),
            names: names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        }),
        _ => Err("expected comma separated certificate and key file paths".to_owned()),
    }
}

fn read_patterns(text: &str) -> Result<BTreeMap<String, String>, String> {
    let map =
        read_pairs(text, false).map_err(|_| "syntax error: expect comma-separated list of filename=N".to_owned())?;
    for level in map.values() {
        parse_int(level, 32).map_err(|_| "syntax error: expect comma-separated list of filename=N".to_owned())?;
    }
    Ok(map)
}

fn read_quantity(text: &str) -> Result<String, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = &text[number.len()..];
    let known = ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].contains(&suffix);
    if text.is_empty() || (known && number.parse::<f64>().is_ok()) {
        Ok(text.to_owned())
    } else {
        Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned())
    }
}

fn read_version(text: &str) -> Result<String, String> {
    match text {
        "" | "raw" => Ok(text.to_owned()),
        _ if text.starts_with('v') => crate::version::check(text).map(|()| text.to_owned()),
        _ => Ok(if parse_bool(text)? { "true".to_owned() } else { String::new() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_malformed_are_refused() {
        let check = |kind: Kind, text: &str| {
            kind.read(text).expect_err(&format!("{kind:?} {text:?}"));
        };
        check(Kind::Bool, "yes");
        check(Kind::Int, "1.5");
        check(Kind::Level, "9999999999");
        check(Kind::Float, "x");
        check(Kind::Duration, "5");
        check(Kind::Ip, "1.2.3");
        check(Kind::Ip, "example.com");
        check(Kind::Strings, "\"a");
        check(Kind::Strings, "a\"b");
        check(Kind::Strings, "\"a\"b");
        check(Kind::PortRange, "9-1");
        check(Kind::PortRange, "1-70000");
        check(Kind::PortRange, "65535+1");
        check(Kind::PortRange, "a-b");
        check(Kind::StringToString, "a");
        let texts = |text: &str| read_texts_by_name(text).expect("pairs").into_iter().collect::<Vec<_>>();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(texts("m,l=a,b"), [pair("m,l", "a,b")]);
        assert_eq!(texts("\"m,l=a,b\",\"n,l=c\""), [pair("m,l", "a,b"), pair("n,l", "c")]);
        check(Kind::FeatureGates, "A");
        check(Kind::FeatureGates, "A=maybe");
        check(Kind::FeatureGates, "other:A=true");
        check(Kind::Int32Slice, "1,x");
        check(Kind::NamedCertKey, "only.crt");
        check(Kind::NamedCertKey, "a,b,c");
        check(Kind::NamedCertKey, ",b");
        check(Kind::Pattern, "server");
        check(Kind::Pattern, "server=high");
        check(Kind::Quantity, "12X");
        check(Kind::Version, "maybe");
        check(Kind::Version, "v1.35.0");
    }

    #[test]
    fn lists_and_maps_are_split() {
        let list = |text: &str| match Kind::Strings.read(text) {
            Ok(Value::List(list)) => list,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(list("a,b,,c"), ["a", "b", "", "c"]);
        assert_eq!(list("\"a,\"\"b\",c"), ["a,\"b", "c"]);
        assert!(list("").is_empty());
        let map = |kind: Kind, text: &str| match kind.read(text) {
            Ok(Value::Map(map)) => map.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(map(Kind::Map, "api/all=false, apps/v1"), ["api/all=false", "apps/v1="]);
        assert_eq!(map(Kind::FeatureGates, "B=false,kube:A=true"), ["A=true", "B=false"]);
        let range = |text: &str| match Kind::PortRange.read(text) {
            Ok(Value::Ports(range)) => (range.first, range.last),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(range("30000-32767"), (30_000, 32_767));
        assert_eq!(range("30000+10"), (30_000, 30_010));
        assert_eq!(range("80"), (80, 80));
        let pair = SniPair { certificate: "c".into(), key: "k".into(), names: vec!["a".into(), "*.b".into()] };
        assert_eq!(Kind::NamedCertKey.read("c,k:a,*.b"), Ok(Value::Pairs(vec![pair])));
    }
}
