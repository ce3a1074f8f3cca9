//! Field paths as Kubernetes writes them: `spec.containers[0].ports[http].name`.

use std::fmt;

use super::Str;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// `.name`
    Field(Str),
    /// `[3]`
    Index(usize),
    /// `[key]`
    Key(Str),
}

/// A field path, as a chain that lives on the stack while a tree is walked: making a child costs nothing, the text is
/// made only for an error.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The empty path.
    pub const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    /// `self.name`
    pub fn field(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    /// `self[i]`
    pub fn index(&'a self, i: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(i) }
    }

    /// `self[key]`
    pub fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    /// Whether this is the empty path.
    pub fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// The steps from the root, owned.
    pub fn segments(&self) -> Vec<Segment> {
        let mut out = self.parent.map_or_else(Vec::new, Path::segments);
        match self.step {
            Step::Root => {}
            Step::Field(name) => out.push(Segment::Field(name.into())),
            Step::Index(i) => out.push(Segment::Index(i)),
            Step::Key(key) => out.push(Segment::Key(key.into())),
        }
        out
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if self.parent.is_none_or(Path::is_root) => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(i) => write!(f, "[{i}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn a_path_reads_like_upstreams() {
        let spec = Path::ROOT.field("spec");
        let containers = spec.field("containers");
        let first = containers.index(0);
        assert_eq!(first.field("name").to_string(), "spec.containers[0].name");
        assert_eq!(Path::ROOT.field("metadata").field("labels").key("a/b").to_string(), "metadata.labels[a/b]");
    }
}
