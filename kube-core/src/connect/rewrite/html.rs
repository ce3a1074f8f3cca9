//! HTML, read as it comes: start tags are written anew with their URLs rewritten, everything else goes through as it is.

use super::tag::Tag;

/// A tag that is longer goes through as it is.
const MAX_TAG: usize = 64 * 1024;

/// Elements whose content is text, up to their end tag.
const RAW: [&[u8]; 10] =
    [b"iframe", b"noembed", b"noframes", b"noscript", b"plaintext", b"script", b"style", b"textarea", b"title", b"xmp"];

/// Where in a document the next byte is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    /// Behind `<`.
    Less,
    /// Behind `</`.
    LessSlash,
    /// Behind `<!` and so many hyphens.
    LessBang(u8),
    /// In what goes on to the next `>`: a doctype, an instruction, what is meant to be a comment.
    Bogus,
    /// In a comment: the hyphens before this byte, whether only they were there, and whether an exclamation mark followed.
    Comment { hyphens: u8, is_start: bool, has_bang: bool },
    /// In a tag.
    Tag(InTag),
    /// In the text of an element whose end tag is waited for.
    Raw,
}

/// Where in a tag the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InTag {
    Name,
    BeforeKey,
    Key,
    AfterKey,
    BeforeValue,
    Value,
    Quoted(u8),
}

/// Rewrites a document.
pub(super) struct Rewriter<F> {
    rewrite: F,
    at: At,
    /// The tag that is being read, as it is written; empty where it goes through.
    raw_tag: Vec<u8>,
    tag: Tag,
    /// It is a start tag that is not too long.
    is_kept: bool,
    /// The last byte of the tag belongs to a value that is not quoted.
    ends_in_value: bool,
    script: RawText,
}

impl<F: Fn(&str) -> Option<String>> Rewriter<F> {
    /// A rewriter of these URLs; what stays as it is is `None`.
    pub(super) fn new(rewrite: F) -> Self {
        Self {
            rewrite,
            at: At::Text,
            raw_tag: Vec::new(),
            tag: Tag::default(),
            is_kept: false,
            ends_in_value: false,
            script: RawText::default(),
        }
    }

    /// Appends what the next bytes of the document become.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            self.byte(*byte, out);
        }
    }

    /// Appends what is left at the end of the document.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.raw_tag);
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.at {
            At::Text if byte == b'<' => {
                self.raw_tag.push(byte);
                self.at = At::Less;
                return;
            }
            At::Less if byte.is_ascii_alphabetic() => {
                self.raw_tag.push(byte);
                self.tag = Tag { name: vec![byte], ..Tag::default() };
                (self.is_kept, self.at) = (true, At::Tag(InTag::Name));
                return;
            }
            At::Tag(within) if self.is_kept => return self.kept(within, byte, out),
            _ => {}
        }
        out.append(&mut self.raw_tag);
        if self.at == At::Less && byte == b'<' {
            self.raw_tag.push(byte);
            return;
        }
        out.push(byte);
        self.at = self.passed(byte);
    }

    /// Where the byte behind one is that goes through.
    fn passed(&mut self, byte: u8) -> At {
        match (self.at, byte) {
            (At::Less, b'/') => At::LessSlash,
            (At::Less, b'!') => At::LessBang(0),
            (At::Less, b'?') => At::Bogus,
            (At::LessSlash, byte) if byte.is_ascii_alphabetic() => At::Tag(InTag::Name),
            (At::LessSlash | At::LessBang(0) | At::Bogus, b'>') => At::Text,
            (At::LessSlash | At::Bogus, _) => At::Bogus,
            (At::LessBang(0), b'-') => At::LessBang(1),
            (At::LessBang(1), b'-') => At::Comment { hyphens: 0, is_start: true, has_bang: false },
            (At::LessBang(_), b'>') => At::Text,
            (At::LessBang(_), _) => At::Bogus,
            (At::Comment { hyphens, is_start, has_bang }, byte) => comment(hyphens, is_start, has_bang, byte),
            (At::Tag(within), byte) => match in_tag(within, byte) {
                Some(next) => At::Tag(next),
                None => At::Text,
            },
            (At::Raw, byte) => match self.script.ends_at(byte) {
                true if byte == b'>' => At::Text,
                true => At::Tag(InTag::BeforeKey),
                false => At::Raw,
            },
            (At::Text | At::Less, _) => At::Text,
        }
    }

    /// A byte of a start tag.
    fn kept(&mut self, within: InTag, byte: u8, out: &mut Vec<u8>) {
        self.raw_tag.push(byte);
        let next = in_tag(within, byte);
        self.note(within, next, byte);
        self.ends_in_value = match next {
            Some(next) => next == InTag::Value,
            None => self.ends_in_value,
        };
        match next {
            Some(next) => {
                self.at = At::Tag(next);
                if self.raw_tag.len() > MAX_TAG {
                    out.append(&mut self.raw_tag);
                    self.is_kept = false;
                }
            }
            None => self.end(out),
        }
    }

    /// Notes what a byte is part of.
    fn note(&mut self, within: InTag, next: Option<InTag>, byte: u8) {
        match (within, next) {
            (InTag::Name, Some(InTag::Name)) => self.tag.name.push(byte),
            (InTag::BeforeKey | InTag::AfterKey, Some(InTag::Key)) => {
                self.tag.attributes.push((vec![byte], Vec::new()));
            }
            (InTag::Key, Some(InTag::Key)) => {
                if let Some((key, _)) = self.tag.attributes.last_mut() {
                    key.push(byte);
                }
            }
            (InTag::BeforeValue | InTag::Value, Some(InTag::Value)) | (InTag::Quoted(_), Some(InTag::Quoted(_))) => {
                if let Some((_, value)) = self.tag.attributes.last_mut() {
                    value.push(byte);
                }
            }
            _ => {}
        }
    }

    /// The end of a start tag.
    fn end(&mut self, out: &mut Vec<u8>) {
        let mut tag = std::mem::take(&mut self.tag);
        tag.closes_itself = self.raw_tag.ends_with(b"/>") && !self.ends_in_value;
        tag.write(&self.rewrite, out);
        self.raw_tag.clear();
        self.is_kept = false;
        let name = tag.name.to_ascii_lowercase();
        self.at = At::Text;
        if RAW.contains(&name.as_slice()) {
            self.script = RawText::of(name);
            self.at = At::Raw;
        }
    }
}

/// Where a tag goes on behind a byte; `None` at its end.
fn in_tag(within: InTag, byte: u8) -> Option<InTag> {
    let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | 0x0c);
    Some(match (within, byte) {
        (InTag::Quoted(quote), byte) if byte == quote => InTag::BeforeKey,
        (InTag::Quoted(_), _) => within,
        (_, b'>') => return None,
        (InTag::BeforeValue, b'"' | b'\'') => InTag::Quoted(byte),
        (InTag::BeforeValue, _) if is_space => InTag::BeforeValue,
        (InTag::BeforeValue, _) => InTag::Value,
        (InTag::Value, _) => {
            if is_space {
                InTag::BeforeKey
            } else {
                InTag::Value
            }
        }
        (InTag::Key, _) if is_space => InTag::AfterKey,
        (InTag::Key | InTag::AfterKey, b'=') => InTag::BeforeValue,
        (InTag::AfterKey, _) if is_space => InTag::AfterKey,
        (_, b'/') => InTag::BeforeKey,
        (InTag::Name | InTag::BeforeKey, _) if is_space => InTag::BeforeKey,
        (InTag::Name, _) => InTag::Name,
        (InTag::BeforeKey | InTag::Key | InTag::AfterKey, _) => InTag::Key,
    })
}

/// Where a comment goes on behind a byte.
fn comment(hyphens: u8, is_start: bool, has_bang: bool, byte: u8) -> At {
    let within = |hyphens, is_start, has_bang| At::Comment { hyphens, is_start, has_bang };
    match byte {
        b'>' if has_bang || hyphens >= 2 || is_start => At::Text,
        b'-' if has_bang => within(1, false, false),
        b'-' => within(hyphens.saturating_add(1), is_start, false),
        b'!' if hyphens >= 2 && !has_bang => within(0, false, true),
        _ => within(0, false, false),
    }
}

/// The text of an element that is no HTML.
#[derive(Default)]
struct RawText {
    /// The element.
    name: Vec<u8>,
    /// The last bytes, in lower case.
    last: Vec<u8>,
    /// In a script: within `<!--`, and within `<script` there.
    is_escaped: bool,
    is_doubly_escaped: bool,
}

impl RawText {
    fn of(name: Vec<u8>) -> Self {
        RawText { name, ..RawText::default() }
    }

    /// Whether this byte is the one behind the name in the end tag.
    fn ends_at(&mut self, byte: u8) -> bool {
        if self.name == b"plaintext" {
            return false;
        }
        let is_end = matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | 0x0c | b'/' | b'>');
        if is_end && self.name == b"script" && self.is_escaped {
            let opens = self.last.ends_with(b"<script");
            let closes = self.last.ends_with(b"</script");
            if self.is_doubly_escaped && closes {
                self.is_doubly_escaped = false;
                self.keep(byte);
                return false;
            }
            self.is_doubly_escaped |= opens;
        }
        let is_own = self.last.strip_suffix(self.name.as_slice()).is_some_and(|before| before.ends_with(b"</"));
        if is_end && is_own && !self.is_doubly_escaped {
            return true;
        }
        self.keep(byte);
        if self.name == b"script" {
            if self.last.ends_with(b"<!--") {
                self.is_escaped = true;
            } else if self.last.ends_with(b"-->") {
                (self.is_escaped, self.is_doubly_escaped) = (false, false);
            }
        }
        false
    }

    fn keep(&mut self, byte: u8) {
        const LONGEST: usize = "</plaintext".len();
        if self.last.len() == LONGEST {
            self.last.remove(0);
        }
        self.last.push(byte.to_ascii_lowercase());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(document: &str) -> String {
        let rewrite = |url: &str| url.starts_with('/').then(|| format!("/base{url}"));
        let mut whole = Vec::new();
        let mut rewriter = Rewriter::new(rewrite);
        rewriter.push(document.as_bytes(), &mut whole);
        rewriter.finish(&mut whole);
        let (mut parts, mut rewriter) = (Vec::new(), Rewriter::new(rewrite));
        for byte in document.as_bytes() {
            rewriter.push(&[*byte], &mut parts);
        }
        rewriter.finish(&mut parts);
        assert_eq!(whole, parts, "{document}");
        String::from_utf8(whole).expect("text")
    }

    #[test]
    fn urls_in_start_tags_are_rewritten_as_upstream_does() {
        let check = |document: &str, expect: &str| assert_eq!(rewritten(document), expect, "{document}");
        check("<a href=\"/x\">y</a>", "<a href=\"/base/x\">y</a>");
        check("<A HREF=/x CLASS='a b'>y</A>", "<a href=\"/base/x\" class=\"a b\">y</A>");
        check("<img src=/x/>", "<img src=\"/base/x/\">");
        check("<img src=\"/x\" />", "<img src=\"/base/x\"/>");
        check("<br/>", "<br/>");
        check("<input disabled formaction = '/x'>", "<input disabled=\"\" formaction=\"/base/x\">");
        check("<a href='/x' href='/y'>", "<a href=\"/base/x\">");
        check("<a title='/x' data-href=/y>", "<a title=\"/x\" data-href=\"/y\">");
        check("<p href='/x'>", "<p href=\"/x\">");
        check("<a href='/x?a=1&amp;b=&quot;&#39;&#x3c;'>", "<a href=\"/base/x?a=1&amp;b=&#34;&#39;&lt;\">");
        check("<a href=/x?a=1&b=2>", "<a href=\"/base/x?a=1&amp;b=2\">");
        check("<p title='&copy; a &amp;copy; & b \"'>", "<p title=\"&copy; a &amp;copy; &amp; b &#34;\">");
        check(
            "<object classid=/a codebase=/b data=/c usemap=/d>",
            "<object classid=\"/base/a\" codebase=\"/base/b\" data=\"/base/c\" usemap=\"/base/d\">",
        );
        check("<a/href=/x>", "<a href=\"/base/x\">");
        check("<a =x href=/x>", "<a =x=\"\" href=\"/base/x\">");
        check("<a href=>", "<a href=\"\">");
    }

    #[test]
    fn what_is_no_start_tag_goes_through() {
        for document in [
            "a < b <3 <<c",
            "</a href='>' b>x",
            "<!-- <a href=/x> -->",
            "<!--> x",
            "<!---> x",
            "<!-- a --!>x",
            "<!-- a -!> b <a href=/x> -->",
            "<!DOCTYPE html>",
            "<!x <a>",
            "<?php <a href=/x>",
            "</ a>",
            "</>",
            "<",
            "<a href='/x",
            "<script>if (a<b) '<a href=/x>'</script>",
            "<script><!-- <script> </script> <a href=/x> --></script>",
            "<script></scriptx></SCRIPT >",
            "<style><a href=/x></style>",
            "<title><a href=/x></title>",
            "<textarea></text</textarea>",
            "<plaintext></plaintext><a href=/x>",
        ] {
            assert_eq!(rewritten(document), document);
        }
        assert_eq!(rewritten("<<a href=/x>"), "<<a href=\"/base/x\">");
        for before in [
            "<!-->",
            "<!-- a -->",
            "<!-- a --!>",
            "</a b='>'>",
            "<!x>",
            "<script></script>",
            "<script><!-- --></script>",
            "<title>x</title >",
        ] {
            assert_eq!(rewritten(&format!("{before}<a href=/x>")), format!("{before}<a href=\"/base/x\">"));
        }
    }

    #[test]
    fn a_tag_without_end_is_not_kept() {
        let long = format!("<a href=/x {}", "x ".repeat(MAX_TAG));
        let mut rewriter = Rewriter::new(|_: &str| None);
        let mut out = Vec::new();
        rewriter.push(long.as_bytes(), &mut out);
        assert!(rewriter.raw_tag.len() <= MAX_TAG && out.len() > MAX_TAG);
        rewriter.push(b"><a href=/y>", &mut out);
        rewriter.finish(&mut out);
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, format!("{long}><a href=\"/y\">"));
    }
}
