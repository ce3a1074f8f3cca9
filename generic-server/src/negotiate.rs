//! Content negotiation: which media type, and which form of an object, a client accepts.

use http::Extensions;
use machinery::meta::{GvkRef, status::Status};

/// Among a request's extensions: the server has CBOR (the gate CBORServingAndStorage).
#[derive(Clone, Copy, Debug)]
pub struct ServesCbor;

impl ServesCbor {
    /// Whether the server has it.
    pub fn is_in(extensions: &Extensions) -> bool {
        extensions.get::<ServesCbor>().is_some()
    }
}

/// An encoding of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Media {
    /// `application/json`
    #[default]
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
    /// `application/cbor`, where the server has it
    Cbor,
}

impl Media {
    const ALL: [Media; 4] = [Media::Json, Media::Yaml, Media::Protobuf, Media::Cbor];
    /// Those that every server has.
    const EVERYWHERE: &'static [Media] = &[Media::Json, Media::Yaml, Media::Protobuf];

    /// The encodings that documents of a request with these extensions may come in.
    pub fn readable(extensions: &Extensions) -> &'static [Media] {
        if ServesCbor::is_in(extensions) { &Media::ALL } else { Media::EVERYWHERE }
    }

    /// The media type.
    pub const fn name(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::Yaml => "application/yaml",
            Media::Protobuf => "application/vnd.kubernetes.protobuf",
            Media::Cbor => "application/cbor",
        }
    }

    /// The media type of events, one after the other, as lists of what may be had name it.
    pub const fn stream_name(self) -> Option<&'static str> {
        match self {
            Media::Json => Some("application/json;stream=watch"),
            Media::Yaml => None,
            Media::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
            Media::Cbor => Some("application/cbor-seq"),
        }
    }

    /// The encoding of a request body by its Content-Type. An absent one means JSON; `None` means that we do not read it.
    pub fn of_content_type(header: Option<&str>, allowed: &[Media]) -> Option<Media> {
        let header = header.unwrap_or("");
        if header.is_empty() {
            return Some(Media::Json);
        }
        let name = media_type::name(header)?;
        allowed.iter().copied().find(|m| m.name() == name)
    }

    /// Whether events can be sent in it, one after the other.
    const fn streams(self) -> bool {
        self.stream_name().is_some()
    }
}

/// What kinds of answers an endpoint can give.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// The encodings, the first one is the default.
    pub media: &'static [Media],
    /// Those that the object itself has; other forms have all.
    pub whole: &'static [Media],
    /// Whether CBOR is one more of both, where the server has it.
    pub cbor: bool,
    /// Whether a router looks at the media types first, before any parameters.
    pub routed: bool,
    /// Whether objects can also be sent as metadata alone, and as tables.
    pub transforms: bool,
    /// Whether nothing tells how a table of them would look.
    pub tableless: bool,
    /// The kind of an aggregated form that only this endpoint has.
    pub aggregated: Option<GvkRef<'static>>,
}

impl Offer {
    /// What stored built-in objects are offered in.
    pub const OBJECTS: Offer = Offer {
        media: Media::EVERYWHERE,
        whole: Media::EVERYWHERE,
        cbor: true,
        routed: true,
        transforms: true,
        tableless: false,
        aggregated: None,
    };
    /// Custom resources have no protobuf of their own, but their metadata and errors about them have: a clause that asks for
    /// the objects in protobuf is passed over.
    pub const CUSTOM: Offer = Offer { whole: &[Media::Json, Media::Yaml], routed: false, ..Offer::OBJECTS };
    /// What is posted and stored nowhere, and parts of objects: there are no tables of them.
    pub const TABLELESS: Offer = Offer { tableless: true, ..Offer::OBJECTS };
    /// Documents that have no other form.
    pub const PLAIN: Offer = Offer { transforms: false, ..Offer::OBJECTS };
    /// Discovery of everything at once.
    pub const DISCOVERY: Offer = Offer {
        routed: false,
        aggregated: Some(GvkRef::new("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")),
        ..Offer::WITHOUT_CBOR
    };
    /// Documents of servers that have no CBOR in any case.
    pub const WITHOUT_CBOR: Offer = Offer { cbor: false, ..Offer::PLAIN };
    /// Nothing but JSON.
    pub const JSON: Offer = Offer { media: &[Media::Json], whole: &[Media::Json], ..Offer::WITHOUT_CBOR };

    /// What is offered to a request with these extensions.
    pub(crate) fn to(&self, extensions: &Extensions) -> Offer {
        Offer { cbor: self.cbor && ServesCbor::is_in(extensions), ..*self }
    }

    /// The encodings, the first one is the default.
    pub fn media(&self) -> impl Iterator<Item = Media> {
        self.media.iter().copied().chain(self.cbor.then_some(Media::Cbor))
    }

    /// The 406 of whoever accepts none of the encodings.
    pub(crate) fn not_acceptable(&self) -> Status {
        Status::not_acceptable(&self.media().map(Media::name).collect::<Vec<_>>())
    }

    /// Whether an Accept header names the media type of CBOR's events, where there is one. A router takes it for what is
    /// offered to lists and watches, though nothing comes of it.
    pub(crate) fn has_sequence(&self, accept: &str) -> bool {
        let mut names = accept.split(',').map(|clause| clause.split(';').next().unwrap_or("").trim());
        self.cbor && names.any(|name| Media::Cbor.stream_name() == Some(name))
    }

    /// Whether an Accept header names any of the media types, as a router reads it: letter by letter, whatever their
    /// parameters, and of wildcards it knows but one. None at all accepts everything.
    pub fn has_media(&self, accept: &str) -> bool {
        let mut names = accept.split(',').map(|clause| clause.split(';').next().unwrap_or("").trim());
        accept.is_empty() || names.any(|name| name == "*/*" || self.media().any(|m| m.name() == name))
    }
}

/// Another form of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The object itself.
    Whole,
    /// `Table`
    Table {
        /// In its old version, v1beta1.
        beta: bool,
    },
    /// `PartialObjectMetadata`
    Metadata {
        /// In its old version, v1beta1.
        beta: bool,
    },
    /// `PartialObjectMetadataList`
    MetadataList {
        /// In its old version, v1beta1.
        beta: bool,
    },
    /// The endpoint's aggregated form.
    Aggregated,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The encoding.
    pub media: Media,
    /// The form.
    pub form: Form,
    /// Whether JSON is indented.
    pub pretty: bool,
}

impl Accepted {
    /// Compact JSON of the object itself: what is served from stored bytes.
    pub const JSON: Accepted = Accepted { media: Media::Json, form: Form::Whole, pretty: false };

    /// The same encoding of a whole document.
    #[must_use]
    pub fn whole(self) -> Accepted {
        Accepted { form: Form::Whole, ..self }
    }
}

/// Reads an Accept header against an offer. JSON is indented if a clause of it, the query's `pretty`, or (where the query
/// says nothing) the User-Agent asks for it. `None`: nothing that is accepted is offered.
pub fn negotiate(accept: Option<&str>, pretty: Option<&str>, agent: Option<&str>, offer: &Offer) -> Option<Accepted> {
    let (media, form, asked_pretty) = match accept.unwrap_or("") {
        "" => (offer.media[0], Form::Whole, false),
        accept => {
            let clauses = clauses(accept);
            // Where there is an aggregated form, whoever names it anywhere gets it.
            let aggregated = offer.aggregated.and_then(|_| agree(&clauses, offer, Clause::aggregated));
            aggregated.or_else(|| agree(&clauses, offer, Clause::form))?
        }
    };
    let pretty = asked_pretty
        || match pretty {
            None | Some("") => {
                agent.is_some_and(|a| ["curl", "Wget", "Mozilla/5.0"].iter().any(|browser| a.starts_with(browser)))
            }
            Some(flag) => matches!(flag, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        };
    Some(Accepted { media, form, pretty: pretty && media == Media::Json })
}

/// The first clause that can be met, with the encoding and the form, and whether it asks for indented text.
fn agree<'a>(
    clauses: &[Clause<'a>],
    offer: &Offer,
    form: impl Fn(&Clause<'a>, Media, &Offer) -> Option<Form>,
) -> Option<(Media, Form, bool)> {
    clauses.iter().find_map(|clause| {
        let mut matching = offer.media().filter(|media| clause.matches(*media) && clause.knows_version(offer));
        let (media, form) = matching.find_map(|media| Some((media, form(clause, media, offer)?)))?;
        Some((media, form, clause.param("pretty") == Some("1")))
    })
}

/// How metrics are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetricsFormat<'a> {
    /// As messages `io.prometheus.client.MetricFamily`, each behind its length, and not as text.
    pub(crate) protobuf: bool,
    /// What becomes of letters that names of metrics once did not have: there are none, so that all schemes are the same.
    escaping: &'a str,
}

impl<'a> MetricsFormat<'a> {
    /// The format that is preferred of those that there are; text for who accepts none of them.
    pub(crate) fn of(accept: &'a str) -> Self {
        let mut format = MetricsFormat { protobuf: false, escaping: "underscores" };
        for clause in clauses(accept) {
            let scheme = clause.params.iter().rev().find(|(key, _)| *key == "escaping").map(|(_, value)| *value);
            if let Some(scheme @ ("allow-utf-8" | "underscores" | "dots" | "values")) = scheme {
                format.escaping = scheme;
            }
            let (proto, encoding) = (clause.param("proto"), clause.param("encoding"));
            match (clause.main, clause.sub) {
                ("application", "vnd.google.protobuf")
                    if (proto, encoding) == (Some("io.prometheus.client.MetricFamily"), Some("delimited")) =>
                {
                    return MetricsFormat { protobuf: true, ..format };
                }
                ("text", "plain") if matches!(clause.param("version"), None | Some("" | "0.0.4")) => return format,
                _ => {}
            }
        }
        format
    }

    /// The media type.
    pub(crate) fn name(self) -> String {
        let name = match self.protobuf {
            true => "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
            false => "text/plain; version=0.0.4; charset=utf-8",
        };
        format!("{name}; escaping={}", self.escaping)
    }
}

/// A clause of an Accept header. Upstream's reader is lenient: what it does not understand it leaves out.
struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// How many clauses upstream sorts by insertion. It matters: its order is none, a clause may come both before and after
/// another.
const FEW: usize = 12;

/// Whether a client that takes the aggregated form of discovery wants to know what this server alone serves.
pub(crate) fn asks_for_one_server(accept: &str) -> bool {
    let mut clauses = clauses(accept).into_iter();
    let of_discovery = clauses.find(|clause| clause.kind().is_some() && clause.kind() == Offer::DISCOVERY.aggregated);
    of_discovery.is_some_and(|clause| clause.param("profile") == Some("nopeer"))
}

/// The clauses, the preferred first.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause> = accept.split(',').filter_map(Clause::parse).collect();
    if clauses.len() > FEW {
        clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(a.wildcards().cmp(&b.wildcards())));
        return clauses;
    }
    for i in 1..clauses.len() {
        for j in (1..=i).rev() {
            if !clauses[j].before(&clauses[j - 1]) {
                break;
            }
            clauses.swap(j, j - 1);
        }
    }
    clauses
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Clause<'a>> {
        let mut parts = text.split(';');
        let (main, sub) = match parts.next()?.trim() {
            "*" => ("*", "*"),
            name => name.split_once('/').map(|(main, sub)| (main.trim(), sub.trim()))?,
        };
        if sub.contains('/') {
            return None;
        }
        let (mut params, mut quality) = (Vec::new(), 1.0);
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key.trim() {
                _ if value.is_empty() || value.contains('=') => {}
                "q" => quality = value.parse().unwrap_or(0.0),
                key => params.push((key, value.trim())),
            }
        }
        Some(Clause { main, sub, params, quality })
    }

    /// Of a parameter that is repeated the last counts.
    fn param(&self, key: &str) -> Option<&str> {
        self.params.iter().rev().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    fn wildcards(&self) -> usize {
        usize::from(self.main == "*") + usize::from(self.sub == "*")
    }

    fn before(&self, other: &Clause<'_>) -> bool {
        self.quality > other.quality || (self.main != "*" && other.main == "*") || (self.sub != "*" && other.sub == "*")
    }

    fn matches(&self, media: Media) -> bool {
        let (main, sub) = media.name().split_once('/').expect("a media type has a slash");
        (self.main == main && (self.sub == sub || self.sub == "*")) || (self.main == "*" && self.sub == "*")
    }

    /// Whether there is the version of the server that the clause asks for: objects know of one.
    fn knows_version(&self, offer: &Offer) -> bool {
        match self.param("sv") {
            None | Some("") => true,
            Some(version) => offer.transforms && version == "v1",
        }
    }

    /// The kind that the clause asks for, if it names any part of it.
    fn kind(&self) -> Option<GvkRef<'_>> {
        let [kind, group, version] = ["as", "g", "v"].map(|key| self.param(key));
        let named = kind.is_some() || group.is_some() || version.is_some();
        named.then(|| GvkRef::new(group.unwrap_or(""), version.unwrap_or(""), kind.unwrap_or("")))
    }

    fn aggregated(&self, _: Media, offer: &Offer) -> Option<Form> {
        (self.kind()? == offer.aggregated?).then_some(Form::Aggregated)
    }

    /// The form that the clause asks for; `None` if it cannot be had.
    fn form(&self, media: Media, offer: &Offer) -> Option<Form> {
        match self.param("stream") {
            None | Some("") => {}
            Some("watch") if media.streams() => {}
            Some(_) => return None,
        }
        let Some(GvkRef { group, version, kind }) = self.kind() else {
            return (media == Media::Cbor || offer.whole.contains(&media)).then_some(Form::Whole);
        };
        if !offer.transforms || group != "meta.k8s.io" {
            return None;
        }
        let beta = match version {
            "v1" => false,
            "v1beta1" => true,
            _ => return None,
        };
        match kind {
            "Table" if !offer.tableless && matches!(media, Media::Json | Media::Yaml) => Some(Form::Table { beta }),
            "PartialObjectMetadata" => Some(Form::Metadata { beta }),
            "PartialObjectMetadataList" => Some(Form::MetadataList { beta }),
            _ => None,
        }
    }
}

/// A Content-Type as Go's mime package reads it.
mod media_type {
    /// The media type in lower case; `None` if something is wrong with what stands behind it.
    pub(super) fn name(header: &str) -> Option<String> {
        let (name, _) = header.split_once(';').unwrap_or((header, ""));
        let mut rest = header[name.len()..].trim_start();
        let mut params: Vec<(String, String)> = Vec::new();
        while !rest.is_empty() && rest.trim_end() != ";" {
            let (key, value, after) = param(rest)?;
            match params.iter().find(|(k, _)| *k == key) {
                Some((_, other)) if *other != value => return None,
                _ => params.push((key, value)),
            }
            rest = after.trim_start();
        }
        Some(name.trim().to_ascii_lowercase())
    }

    /// A parameter with the semicolon in front, and what comes after it.
    fn param(text: &str) -> Option<(String, String, &str)> {
        let (key, rest) = token(text.strip_prefix(';')?.trim_start())?;
        let rest = rest.trim_start().strip_prefix('=')?.trim_start();
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => token(rest).map(|(value, rest)| (value.to_owned(), rest))?,
        };
        Some((key.to_ascii_lowercase(), value, rest))
    }

    fn is_special(c: char) -> bool {
        r#"()<>@,;:\"/[]?="#.contains(c)
    }

    fn token(text: &str) -> Option<(&str, &str)> {
        let end = text.find(|c: char| !c.is_ascii_graphic() || is_special(c)).unwrap_or(text.len());
        (end > 0).then(|| text.split_at(end))
    }

    /// What stands before the closing quote, without its backslashes, and what stands after it.
    fn unquoted(text: &str) -> Option<(String, &str)> {
        let mut value = String::new();
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return Some((value, &text[at + 1..])),
                '\r' | '\n' => return None,
                '\\' => match chars.next_if(|(_, next)| is_special(*next)) {
                    Some((_, escaped)) => value.push(escaped),
                    None => value.push(c),
                },
                c => value.push(c),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
