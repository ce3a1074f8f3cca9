//! Command-line flags: one table of facts, a parser with pflag's habits, and the help made from it.

mod go;
mod help;
mod parse;
mod table;
mod value;

pub(crate) use help::help;
pub(crate) use parse::{Parsed, parse};
use table::FLAGS;
use value::Kind;

#[cfg(test)]
mod tests {
    use super::{table::Section, *};

    /// Facts of kube-apiserver v1.36.2: section, flag, type, default.
    const UPSTREAM: &str = include_str!("upstream.tsv");

    #[test]
    fn the_table_has_every_flag_of_upstream_with_its_type_and_default() {
        let ours: Vec<_> = FLAGS.iter().filter(|flag| flag.section != Section::Ours).collect();
        let theirs: Vec<_> = UPSTREAM.lines().skip(1).collect();
        assert_eq!(ours.len(), theirs.len());
        for (flag, line) in ours.iter().zip(theirs) {
            let mut columns = line.split('\t');
            let mut next = || columns.next().unwrap_or_default();
            assert_eq!(flag.section.title(), next(), "{line}");
            assert_eq!(flag.name, next(), "{line}");
            assert_eq!(flag.kind.label(), next(), "{line}");
            assert_eq!(flag.default, next().trim_matches('"'), "{line}");
        }
    }

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for flag in FLAGS {
            flag.kind.default_value(flag.default).expect(flag.name);
        }
    }
}
