//! YAML errors, in the words of go-yaml (libyaml's, without the context).

use std::fmt;

use granit_parser::{ErrorKind, ScanError};

/// An error of a YAML document. Its text is what clients of the Go server see: `yaml: line 2: did not find expected key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlError {
    text: String,
}

impl YamlError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        YamlError { text: text.into() }
    }

    /// A scanner's or parser's error, `flow` telling in which flow collection it came up (`[` or `{`).
    ///
    /// go-yaml counts lines from 0 in what its parser says, from 1 in what its scanner says, and leaves out line 0.
    pub(super) fn from_scan(error: &ScanError, source: &str, flow: Option<char>) -> Self {
        let (text, layer, place) = words(error.kind(), source, flow);
        let line = match place {
            Place::Here => error.marker().line().saturating_sub(1),
            Place::NextLine => error.marker().line(),
            Place::EndOfText => source.matches('\n').count(),
            Place::End => source.lines().count(),
        };
        match (line, layer) {
            (0, _) => YamlError::new(text),
            (line, Layer::Parser) => YamlError::new(format!("line {line}: {text}")),
            (line, Layer::Scanner) => YamlError::new(format!("line {}: {text}", line + 1)),
        }
    }
}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "yaml: {}", self.text)
    }
}

impl std::error::Error for YamlError {}

/// Which of libyaml's layers would have noticed.
#[derive(Clone, Copy)]
enum Layer {
    Scanner,
    Parser,
}

const CANNOT_START: &str = "found character that cannot start any token";
const NO_COLON: &str = "could not find expected ':'";
const NO_NODE: &str = "did not find expected node content";
const NO_KEY: &str = "did not find expected key";
const FLOW_MAPPING: &str = "did not find expected ',' or '}'";
const FLOW_SEQUENCE: &str = "did not find expected ',' or ']'";

/// Where libyaml would have noticed, seen from where our scanner did.
#[derive(Clone, Copy)]
enum Place {
    Here,
    NextLine,
    /// In the last line.
    EndOfText,
    /// After the last line.
    End,
}

fn words(kind: &ErrorKind, source: &str, flow: Option<char>) -> (String, Layer, Place) {
    use ErrorKind as K;
    let place = match kind {
        K::UnexpectedEofFlowSequence
        | K::UnexpectedEofFlowMapping
        | K::UnexpectedEofImplicitFlowMapping
        | K::UnclosedFlowCollection { .. } => Place::End,
        K::UnclosedQuotedScalar => Place::EndOfText,
        K::SimpleKeyExpected
        | K::InvalidSimpleKey
        | K::UnexpectedEndOfPlainScalar
        | K::TabInPlainScalar
        | K::TabAtBlockScalarStart => Place::NextLine,
        _ => Place::Here,
    };
    if matches!(kind, K::UnclosedFlowCollection { .. }) && source.trim_end().ends_with(['[', '{', ',']) {
        return (NO_NODE.to_owned(), Layer::Parser, place);
    }
    let (text, layer) = match (kind, flow) {
        (
            K::MappingValueNotAllowed
            | K::InvalidColonPlacement
            | K::InvalidTrailingSingleQuotedScalar
            | K::InvalidTrailingDoubleQuotedScalar,
            Some(open),
        ) => (if open == '[' { FLOW_SEQUENCE } else { FLOW_MAPPING }.to_owned(), Layer::Parser),
        (kind, _) => block_words(kind),
    };
    (text, layer, place)
}

fn block_words(kind: &ErrorKind) -> (String, Layer) {
    use ErrorKind as K;
    use Layer::{Parser, Scanner};
    let (text, layer) = match kind {
        K::UnexpectedEofFlowSequence | K::ExpectedFlowSequenceSeparator => (FLOW_SEQUENCE, Parser),
        K::UnexpectedEofFlowMapping | K::UnexpectedEofImplicitFlowMapping | K::ExpectedFlowMappingSeparator => {
            (FLOW_MAPPING, Parser)
        }
        K::UnclosedFlowCollection { open: '{' } | K::MismatchedFlowCollectionEnd { open: '{', .. } => {
            (FLOW_MAPPING, Parser)
        }
        K::UnclosedFlowCollection { .. } | K::MismatchedFlowCollectionEnd { .. } => (FLOW_SEQUENCE, Parser),
        K::MisplacedFlowCollectionEnd | K::ExpectedNodeContent => (NO_NODE, Parser),
        K::UnexpectedEofBlockMapping | K::ExpectedBlockMappingKey | K::InvalidIndentation => (NO_KEY, Parser),
        K::UnexpectedEofBlockSequence | K::ExpectedBlockSequenceEntry => {
            ("did not find expected '-' indicator", Parser)
        }
        K::ExpectedDocumentStart | K::MissingDocumentEndBeforeDirective | K::InvalidDocumentEnd => {
            ("did not find expected <document start>", Parser)
        }
        K::DuplicateVersionDirective => ("found duplicate %YAML directive", Parser),
        K::UnsupportedYamlMajorVersion => ("found incompatible YAML document", Parser),
        K::DuplicateTagDirective => ("found duplicate %TAG directive", Parser),
        K::UndeclaredTagHandle => ("found undefined tag handle", Parser),
        K::RecursionLimitExceeded => ("exceeded max depth of 10000", Scanner),
        K::SimpleKeyExpected | K::InvalidSimpleKey | K::UnexpectedEndOfPlainScalar => (NO_COLON, Scanner),
        K::UnexpectedCharacter { .. }
        | K::TabNotAllowed
        | K::TabInBlockIndentation
        | K::TabInIndentation
        | K::PlainScalarStartsWithDashFlowIndicator => (CANNOT_START, Scanner),
        K::TabInPlainScalar => ("found a tab character that violates indentation", Scanner),
        K::TabAtBlockScalarStart | K::InvalidBlockScalarIndent => {
            ("found a tab character where an indentation space is expected", Scanner)
        }
        K::MappingValueNotAllowed | K::InvalidColonPlacement | K::InvalidMappingValueWhitespace => {
            ("mapping values are not allowed in this context", Scanner)
        }
        K::FlowMappingValueAdjacentCollection => ("mapping values are not allowed in this context", Scanner),
        K::MappingKeyNotAllowed => ("mapping keys are not allowed in this context", Scanner),
        K::BlockSequenceEntryNotAllowed | K::BlockEntryInFlowCollection | K::InvalidBlockEntryWhitespace => {
            ("block sequence entries are not allowed in this context", Scanner)
        }
        K::ZeroBlockScalarIndent => ("found an indentation indicator equal to 0", Scanner),
        K::InvalidBlockScalarHeader | K::InvalidDirectiveTerminator => {
            ("did not find expected comment or line break", Scanner)
        }
        K::DocumentIndicatorInQuotedScalar => ("found unexpected document indicator", Scanner),
        K::UnclosedQuotedScalar => ("found unexpected end of stream", Scanner),
        K::UnknownQuotedScalarEscape => ("found unknown escape character", Scanner),
        K::InvalidQuotedScalarHexEscape | K::InvalidLowSurrogateHexEscape => {
            ("did not find expected hexdecimal number", Scanner)
        }
        K::InvalidLowSurrogate | K::MissingLowSurrogate | K::UnpairedLowSurrogate | K::InvalidUnicodeEscape => {
            ("found invalid Unicode character escape code", Scanner)
        }
        K::MissingAnchorOrAliasName => ("did not find expected alphabetic or numeric character", Scanner),
        K::MissingTagUri => ("did not find expected tag URI", Scanner),
        K::UnclosedVerbatimTag => ("did not find the expected '>'", Scanner),
        K::ExpectedTagBang | K::ExpectedTagDirectiveBang => ("did not find expected '!'", Scanner),
        K::InvalidTagTerminator | K::InvalidTagDirectiveTerminator => {
            ("did not find expected whitespace or line break", Scanner)
        }
        K::InvalidTrailingSingleQuotedScalar | K::InvalidTrailingDoubleQuotedScalar => (NO_KEY, Parser),
        other => return (other.to_string(), Scanner),
    };
    (text.to_owned(), layer)
}
