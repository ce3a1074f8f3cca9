//! The documents of one state of the rows, and how they become those of the next.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bytes::Bytes;
use imbl::OrdMap;
use machinery::{
    Str, Value,
    codec::json,
    object,
    schema::{TypeId, openapi::Flavor},
};

use crate::openapi::{
    cbor,
    frame::{Described, Frame},
    members::{Encoding, Members, Part, Parts},
    row::{Added, Published, hash_with},
    schemas::Schemas,
    v2, v3,
};
use crate::{
    body::Piece,
    table::{ResourceTable, TableEntry},
};

/// The documents for one state of the rows.
pub(super) struct Documents {
    tables: Vec<Arc<ResourceTable>>,
    by_name: OrdMap<Str, Arc<Document>>,
    index: OnceLock<Bytes>,
    built_in: Arc<BuiltIn>,
    v2_hash: OnceLock<Str>,
}

/// One document of v3.
pub(super) struct Document {
    /// What clients keep it by: it changes when the rows do.
    pub(super) hash: Str,
    /// Its member in the index.
    line: Vec<u8>,
    source: Source,
    /// Of built-in ones the whole document, by encoding.
    pieces: [OnceLock<Vec<Arc<Piece>>>; 2],
}

enum Source {
    Rows(Vec<Arc<TableEntry>>),
    Group(Str),
    Page(&'static v3::Page),
}

/// What the document of v2 has of built-in rows, by encoding.
struct BuiltIn {
    described: Described,
    entries: Vec<Arc<TableEntry>>,
    parts: [OnceLock<(Parts, BTreeSet<TypeId>)>; 2],
}

/// Built-in definitions for documents of custom resources: those of kinds with the same subresources refer to the same.
pub(super) struct Shared {
    described: Described,
    kept: Mutex<HashMap<SharedKey, Vec<Arc<Piece>>>>,
}

type SharedKey = (Flavor, Encoding, Vec<TypeId>);

impl Documents {
    /// The documents of these tables. What has the same rows as before stays as it is; only groups whose rows have changed
    /// are looked at.
    pub(super) fn after(
        before: Option<&Documents>,
        tables: Vec<Arc<ResourceTable>>,
        published: &Published,
        described: Described,
    ) -> Self {
        let (mut by_name, changed) = match before {
            Some(before) => (before.by_name.clone(), changed_groups(&before.tables, &tables)),
            None => (pages(published, described), tables.iter().flat_map(|t| t.group_names().cloned()).collect()),
        };
        for group in &changed {
            let old = before.map(|before| named_sources(&before.tables, group)).unwrap_or_default();
            let new = named_sources(&tables, group);
            let kept: BTreeSet<Str> = new.iter().map(|(name, _)| name.clone()).collect();
            for (name, source) in new {
                if !by_name.get(&name).is_some_and(|known| known.source.is(&source)) {
                    let document = Arc::new(Document::new(&name, source, published, described));
                    by_name.insert(name, document);
                }
            }
            old.into_iter().filter(|(name, _)| !kept.contains(name)).for_each(|(name, _)| {
                by_name.remove(&name);
            });
        }
        let has_built_in =
            |tables: &[Arc<ResourceTable>], group: &Str| rows_of(tables, group).any(|entry| entry.row.built_in);
        let same = |before: &&Documents| {
            !changed.iter().any(|group| has_built_in(&before.tables, group) || has_built_in(&tables, group))
        };
        let built_in = before.filter(same).map(|before| before.built_in.clone());
        Documents {
            by_name,
            index: OnceLock::new(),
            built_in: built_in.unwrap_or_else(|| Arc::new(BuiltIn::new(&tables, described))),
            tables,
            v2_hash: OnceLock::new(),
        }
    }

    /// Whether they are those of these tables.
    pub(super) fn are_of(&self, tables: &[Arc<ResourceTable>]) -> bool {
        self.tables.iter().zip(tables).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// A document of v3.
    pub(super) fn document(&self, name: &str) -> Option<&Document> {
        self.by_name.get(name).map(|document| &**document)
    }

    /// The index of v3.
    pub(super) fn index(&self) -> Bytes {
        let write = || {
            let length: usize = self.by_name.values().map(|document| document.line.len() + 1).sum();
            let mut text = Vec::with_capacity(length + 16);
            text.extend_from_slice(br#"{"paths":{"#);
            for (n, document) in self.by_name.values().enumerate() {
                if n > 0 {
                    text.push(b',');
                }
                text.extend_from_slice(&document.line);
            }
            text.extend_from_slice(b"}}");
            Bytes::from(text)
        };
        self.index.get_or_init(write).clone()
    }

    /// The rows of custom resources.
    pub(super) fn customs(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.tables.iter().flat_map(|t| t.entries()).filter(|entry| !entry.row.built_in)
    }

    /// The hash of the document of v2, in every encoding.
    pub(super) fn v2_hash(&self, published: &Published, described: Described) -> &str {
        self.v2_hash.get_or_init(|| {
            hash_with(|context| {
                context.update(&described.seed());
                for entry in self.built_in.entries.iter().chain(self.customs()) {
                    context.update(entry.openapi.hash(&entry.row, published).as_ref());
                }
            })
        })
    }

    /// The document of v2.
    pub(super) fn v2(&self, encoding: Encoding, shared: &Shared, published: &Published) -> Vec<Arc<Piece>> {
        let (base, known) = self.built_in.parts(encoding);
        let mut parts = base.clone();
        let (mut missing, mut last) = (BTreeSet::new(), &[][..]);
        for entry in self.customs() {
            let added = entry.openapi.added(&entry.row, published, Flavor::V2, encoding);
            parts.add(added);
            if added.needs != last {
                missing.extend(added.needs.iter().filter(|id| !known.contains(id)).copied());
                last = &added.needs;
            }
        }
        if !missing.is_empty() {
            parts.definitions.extend(shared.following(Flavor::V2, encoding, missing));
        }
        Frame::Swagger(shared.described.version).around(parts, encoding)
    }
}

impl Parts {
    fn add(&mut self, added: &Added) {
        self.paths.extend_from_slice(&added.parts.paths);
        self.definitions.extend_from_slice(&added.parts.definitions);
    }
}

fn rows_of<'a>(tables: &'a [Arc<ResourceTable>], group: &str) -> impl Iterator<Item = &'a Arc<TableEntry>> {
    tables.iter().filter_map(move |table| table.group(group)).flat_map(|rows| rows.entries())
}

fn changed_groups(before: &[Arc<ResourceTable>], after: &[Arc<ResourceTable>]) -> BTreeSet<Str> {
    before.iter().zip(after).flat_map(|(before, after)| after.changed_groups(before)).collect()
}

fn pages(published: &Published, described: Described) -> OrdMap<Str, Arc<Document>> {
    let page = |page: &'static v3::Page| {
        let name = Str::new_static(page.name);
        let document = Document::new(&name, Source::Page(page), published, described);
        (name, Arc::new(document))
    };
    v3::PAGES.iter().map(page).collect()
}

/// What the documents of a group are made of, by their names.
fn named_sources(tables: &[Arc<ResourceTable>], group: &Str) -> Vec<(Str, Source)> {
    let mut versions: Vec<(&Str, Vec<Arc<TableEntry>>)> = Vec::new();
    for entry in rows_of(tables, group) {
        match versions.iter_mut().find(|(version, _)| **version == entry.row.version) {
            Some((_, rows)) => rows.push(entry.clone()),
            None => versions.push((&entry.row.version, vec![entry.clone()])),
        }
    }
    let built_in = versions.iter().any(|(_, rows)| rows[0].row.built_in);
    let mut out = Vec::new();
    if built_in && !group.is_empty() {
        out.push((Str::from(format!("apis/{group}")), Source::Group(group.clone())));
    }
    for (_, rows) in versions {
        let root = if group.is_empty() { "api" } else { "apis" };
        out.push((Str::from(format!("{root}/{}", rows[0].row.api_version())), Source::Rows(rows)));
    }
    out
}

impl Source {
    /// Whether two documents have the same source, so that they are the same.
    fn is(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Rows(a), Source::Rows(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b)),
            (Source::Group(a), Source::Group(b)) => a == b,
            (Source::Page(_), Source::Page(_)) => true,
            _ => false,
        }
    }

    /// The rows, if they are custom resources.
    fn customs(&self) -> Option<&[Arc<TableEntry>]> {
        match self {
            Source::Rows(rows) if !rows[0].row.built_in => Some(rows),
            _ => None,
        }
    }
}

impl Document {
    fn new(name: &Str, source: Source, published: &Published, described: Described) -> Self {
        let hash = hash_with(|context| {
            context.update(&described.seed());
            context.update(name.as_bytes());
            if let Source::Rows(rows) = &source {
                for entry in rows {
                    context.update(entry.openapi.hash(&entry.row, published).as_ref());
                }
            }
        });
        Document { line: index_line(name, &hash), hash, source, pieces: Default::default() }
    }

    /// The rows of custom resources that it is made of.
    pub(super) fn customs(&self) -> impl Iterator<Item = &Arc<TableEntry>> {
        self.source.customs().unwrap_or_default().iter()
    }

    /// The document.
    pub(super) fn pieces(&self, encoding: Encoding, shared: &Shared, published: &Published) -> Vec<Arc<Piece>> {
        if let Some(rows) = self.source.customs() {
            return custom(rows, encoding, shared, published);
        }
        let make = || {
            let (mut paths, schemas) = match &self.source {
                Source::Group(name) => v3::group(name),
                Source::Page(page) => page.content(),
                Source::Rows(rows) => v3::group_version(&rows.iter().map(|entry| &entry.row).collect::<Vec<_>>()),
            };
            if shared.described.cbor && matches!(self.source, Source::Rows(_)) {
                cbor::add_all(&mut paths);
            }
            let mut members = Members::first(Flavor::V3, encoding, Part::Paths);
            members.put_all(&paths);
            let definitions = definitions(Flavor::V3, encoding, &schemas, shared.described);
            let parts = Parts { paths: members.finish(), definitions, ..Parts::default() };
            Frame::BuiltIn(shared.described.version).around(parts, encoding)
        };
        self.pieces[usize::from(encoding == Encoding::Protobuf)].get_or_init(make).clone()
    }
}

/// The document of a group version of custom resources.
fn custom(rows: &[Arc<TableEntry>], encoding: Encoding, shared: &Shared, published: &Published) -> Vec<Arc<Piece>> {
    let (mut parts, mut needs) = (Parts::default(), BTreeSet::new());
    for entry in rows {
        let added = entry.openapi.added(&entry.row, published, Flavor::V3, encoding);
        parts.add(added);
        needs.extend(added.needs.iter().copied());
    }
    if encoding == Encoding::Json
        && let Some(first) = parts.paths.first_mut()
    {
        *first = Piece::plain(first.text().slice(1..)); // nothing is before its comma
    }
    let own = std::mem::take(&mut parts.definitions);
    parts.definitions = shared.first(Flavor::V3, encoding, needs);
    parts.definitions.extend(own);
    Frame::Custom.around(parts, encoding)
}

fn definitions(flavor: Flavor, encoding: Encoding, schemas: &Schemas, described: Described) -> Vec<Arc<Piece>> {
    let mut members = Members::first(flavor, encoding, Part::Definitions);
    schemas.write(described, &mut members);
    members.finish()
}

impl BuiltIn {
    fn new(tables: &[Arc<ResourceTable>], described: Described) -> Self {
        let entries = tables.iter().flat_map(|t| t.entries()).filter(|entry| entry.row.built_in).cloned();
        BuiltIn { described, entries: entries.collect(), parts: Default::default() }
    }

    fn parts(&self, encoding: Encoding) -> &(Parts, BTreeSet<TypeId>) {
        self.parts[usize::from(encoding == Encoding::Protobuf)].get_or_init(|| {
            let rows: Vec<_> = self.entries.iter().map(|entry| &entry.row).collect();
            let mut members = Members::first(Flavor::V2, encoding, Part::Paths);
            let (schemas, shared) = v2::built_in(&rows, self.described, &mut members);
            let mut parameters = Members::first(Flavor::V2, encoding, Part::Parameters);
            shared.iter().for_each(|(name, parameter)| parameters.put(name, parameter));
            let parts = Parts {
                paths: members.finish(),
                definitions: definitions(Flavor::V2, encoding, &schemas, self.described),
                parameters: parameters.finish(),
            };
            (parts, schemas.built_ins().collect())
        })
    }
}

impl Shared {
    /// Nothing yet. `described` is what documents of built-in groups say that they describe.
    pub(super) fn new(described: Described) -> Self {
        Shared { described, kept: Mutex::default() }
    }

    /// These definitions, before all others.
    fn first(&self, flavor: Flavor, encoding: Encoding, ids: BTreeSet<TypeId>) -> Vec<Arc<Piece>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (flavor, encoding, ids.into_iter().collect::<Vec<_>>());
        if let Some(pieces) = kept.get(&key) {
            return pieces.clone();
        }
        let pieces = definitions(flavor, encoding, &Schemas::of(flavor, key.2.iter().copied()), self.described);
        kept.insert(key, pieces.clone());
        pieces
    }

    /// These definitions, behind others.
    fn following(&self, flavor: Flavor, encoding: Encoding, ids: BTreeSet<TypeId>) -> Vec<Arc<Piece>> {
        let mut pieces = self.first(flavor, encoding, ids);
        if encoding == Encoding::Json {
            pieces.insert(0, Piece::plain(b",".as_slice()));
        }
        pieces
    }
}

/// The member of the index for a document.
fn index_line(name: &Str, hash: &str) -> Vec<u8> {
    let mut line = json::encode(&Value::from(name));
    line.push(b':');
    let url = format!("/openapi/v3/{name}?hash={hash}");
    line.extend_from_slice(&json::encode(&object! { "serverRelativeURL" => url }));
    line
}
