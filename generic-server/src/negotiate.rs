//! Content negotiation: which media type, and which form of an object, a client accepts.

use machinery::Str;

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
}

impl Media {
    const ALL: [Media; 3] = [Media::Json, Media::Yaml, Media::Protobuf];

    /// The media type.
    pub const fn name(self) -> &'static str {
        match self {
            Media::Json => "application/json",
            Media::Yaml => "application/yaml",
            Media::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The encoding of a request body by its Content-Type. An absent one means JSON; `None` means that we do not read it.
    pub fn of_content_type(header: Option<&str>, allowed: &[Media]) -> Option<Media> {
        let header = header.unwrap_or("");
        if header.is_empty() {
            return Some(Media::Json);
        }
        let media = MediaType::parse(header)?;
        allowed.iter().copied().find(|m| m.name() == media.essence)
    }
}

/// What kinds of answers an endpoint can give.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// The encodings, the first one is the default.
    pub media: &'static [Media],
    /// Whether a router looks at the media types first, before any parameters.
    pub routed: bool,
    /// Whether objects can also be sent as tables and as metadata alone.
    pub transforms: bool,
    /// The group, version and kind of an aggregated form that only this endpoint has.
    pub aggregated: Option<(&'static str, &'static str, &'static str)>,
}

impl Offer {
    /// What stored built-in objects are offered in.
    pub const OBJECTS: Offer = Offer { media: &Media::ALL, routed: true, transforms: true, aggregated: None };
    /// Custom resources have no protobuf of their own, but their metadata have.
    pub const CUSTOM: Offer = Offer { media: &Media::ALL, routed: false, transforms: true, aggregated: None };
    /// Documents that have no other form.
    pub const PLAIN: Offer = Offer { media: &Media::ALL, routed: true, transforms: false, aggregated: None };
    /// Discovery of everything at once.
    pub const DISCOVERY: Offer = Offer {
        media: &Media::ALL,
        routed: false,
        transforms: false,
        aggregated: Some(("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")),
    };
    /// Nothing but JSON.
    pub const JSON: Offer = Offer { media: &[Media::Json], routed: true, transforms: false, aggregated: None };

    /// Whether an Accept header names any of the media types, whatever their parameters.
    pub fn has_media(&self, accept: &str) -> bool {
        accept.split(',').filter_map(MediaType::parse).any(|clause| self.media.iter().any(|m| clause.matches(*m)))
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

/// Reads an Accept header (and the query's `pretty`, and the User-Agent, which upstream turns on indenting for) against an
/// offer. `None`: nothing that is accepted is offered.
pub fn negotiate(accept: Option<&str>, pretty: Option<bool>, agent: Option<&str>, offer: &Offer) -> Option<Accepted> {
    let accept = accept.unwrap_or("");
    let first = offer.media[0];
    let (media, form, asked_pretty) = if accept.is_empty() {
        (first, Form::Whole, false)
    } else {
        let mut clauses: Vec<MediaType> = accept.split(',').filter_map(MediaType::parse).collect();
        clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality)); // stable: of equals the first named wins
        clauses.iter().find_map(|clause| {
            offer.media.iter().find(|m| clause.matches(**m)).and_then(|m| {
                let form = clause.form(*m, offer)?;
                Some((*m, form, clause.param("pretty").is_some_and(|p| p == "1" || p == "true")))
            })
        })?
    };
    let pretty = pretty.unwrap_or_else(|| {
        asked_pretty
            || agent.is_some_and(|a| ["curl", "Wget", "Mozilla/5.0"].iter().any(|browser| a.starts_with(browser)))
    });
    Some(Accepted { media, form, pretty: pretty && media == Media::Json })
}

/// One media type with its parameters.
struct MediaType {
    essence: Str,
    params: Vec<(Str, Str)>,
    quality: f32,
}

impl MediaType {
    fn parse(text: &str) -> Option<MediaType> {
        let mut parts = text.split(';');
        let essence = parts.next()?.trim().to_ascii_lowercase();
        if essence.is_empty() || !essence.contains('/') {
            return None;
        }
        let (mut params, mut quality) = (Vec::new(), 1.0);
        for part in parts {
            let (key, value) = part.split_once('=')?;
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
            if key == "q" {
                quality = value.parse().unwrap_or(1.0);
            } else {
                params.push((Str::from(key), Str::from(value)));
            }
        }
        Some(MediaType { essence: essence.into(), params, quality })
    }

    fn param(&self, key: &str) -> Option<&str> {
        self.params.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    fn matches(&self, media: Media) -> bool {
        self.essence == media.name() || self.essence == "*/*" || self.essence == "application/*"
    }

    /// The form that the clause asks for; `None` if it cannot be had.
    fn form(&self, media: Media, offer: &Offer) -> Option<Form> {
        let Some(kind) = self.param("as") else { return Some(Form::Whole) };
        let (group, version) = (self.param("g").unwrap_or(""), self.param("v").unwrap_or(""));
        if offer.aggregated == Some((group, version, kind)) {
            return Some(Form::Aggregated);
        }
        if !offer.transforms || group != "meta.k8s.io" {
            return None;
        }
        let beta = match version {
            "v1" => false,
            "v1beta1" => true,
            _ => return None,
        };
        match kind {
            "Table" if media != Media::Protobuf => Some(Form::Table { beta }),
            "PartialObjectMetadata" => Some(Form::Metadata { beta }),
            "PartialObjectMetadataList" => Some(Form::MetadataList { beta }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, offer: &Offer, expect: Option<(Media, Form)>) {
        let got = negotiate(Some(accept), None, None, offer).map(|a| (a.media, a.form));
        assert_eq!(got, expect, "{accept}");
    }

    #[test]
    fn accept_headers_are_read_as_upstream_reads_them() {
        let objects = &Offer::OBJECTS;
        check("", objects, Some((Media::Json, Form::Whole)));
        check("*/*", objects, Some((Media::Json, Form::Whole)));
        check("application/*", objects, Some((Media::Json, Form::Whole)));
        check("text/html", objects, None);
        check("text/html,application/yaml;q=0.5", objects, Some((Media::Yaml, Form::Whole)));
        check("application/json;q=0.2,application/yaml;q=0.5", objects, Some((Media::Yaml, Form::Whole)));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            objects,
            Some((Media::Json, Form::Table { beta: false })),
        );
        check("application/json;as=Table;v=v2;g=meta.k8s.io", objects, None);
        check("application/json;as=Table;v=v1", objects, None);
        check(
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
            objects,
            Some((Media::Json, Form::Whole)),
        );
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            &Offer::PLAIN,
            Some((Media::Json, Form::Whole)),
        );
        check(
            "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
            &Offer::DISCOVERY,
            Some((Media::Json, Form::Aggregated)),
        );
    }

    #[test]
    fn content_types_name_encodings() {
        let check = |header: &str, expect: Option<Media>| {
            assert_eq!(Media::of_content_type(Some(header), &Media::ALL), expect, "{header}");
        };
        check("", Some(Media::Json));
        check("application/json; charset=utf-8", Some(Media::Json));
        check("Application/JSON", Some(Media::Json));
        check("application/json;;", None);
        check("nonsense", None);
        check("*/*", None);
        check("text/yaml", None);
        check("application/vnd.kubernetes.protobuf", Some(Media::Protobuf));
    }
}
