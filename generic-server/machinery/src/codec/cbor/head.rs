//! The first bytes of items: their major type and their argument.

/// The major types.
pub(super) const POSITIVE: u8 = 0;
pub(super) const NEGATIVE: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const TEXT: u8 = 3;
pub(super) const ARRAY: u8 = 4;
pub(super) const MAP: u8 = 5;
pub(super) const TAG: u8 = 6;
pub(super) const PRIMITIVE: u8 = 7;

/// What stands in place of an argument where a length is not known in advance.
pub(super) const INDEFINITE: u8 = 31;
/// What ends an item of such a length.
pub(super) const BREAK: u8 = 0xff;

/// Tags that mean something to readers.
pub(super) const TAG_TIME: u64 = 0;
pub(super) const TAG_EPOCH: u64 = 1;
pub(super) const TAG_BIGNUM: u64 = 2;
pub(super) const TAG_NEGATIVE_BIGNUM: u64 = 3;
pub(super) const TAG_BASE64URL: u64 = 21;
pub(super) const TAG_BASE64: u64 = 22;
pub(super) const TAG_BASE16: u64 = 23;
pub(super) const TAG_SELF_DESCRIBED: u64 = 55799;

/// What errors call a major type.
pub(super) fn name(major: u8) -> &'static str {
    match major {
        POSITIVE => "positive integer",
        NEGATIVE => "negative integer",
        BYTES => "byte string",
        TEXT => "UTF-8 text string",
        ARRAY => "array",
        MAP => "map",
        TAG => "tag",
        _ => "primitives",
    }
}

/// The first bytes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) major: u8,
    /// The lower five bits of the first byte.
    pub(super) info: u8,
    pub(super) argument: u64,
    /// How many bytes these are.
    pub(super) size: usize,
}

impl Head {
    /// The head at the start of `bytes`; `None` if they end in it.
    pub(super) fn read(bytes: &[u8]) -> Option<Head> {
        let (&first, rest) = bytes.split_first()?;
        let (major, info) = (first >> 5, first & 0x1f);
        let (argument, size) = match info {
            24 => (u64::from(*rest.first()?), 2),
            25 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 3),
            26 => (u64::from(u32::from_be_bytes(*rest.first_chunk()?)), 5),
            27 => (u64::from_be_bytes(*rest.first_chunk()?), 9),
            info => (u64::from(info), 1),
        };
        Some(Head { major, info, argument, size })
    }

    pub(super) fn is_indefinite(self) -> bool {
        self.info == INDEFINITE
    }

    /// The floating-point number that it is, if it is one.
    pub(super) fn float(self) -> Option<f64> {
        match (self.major, self.info) {
            (PRIMITIVE, 25) => Some(half(self.argument as u16)),
            (PRIMITIVE, 26) => Some(f64::from(f32::from_bits(self.argument as u32))),
            (PRIMITIVE, 27) => Some(f64::from_bits(self.argument)),
            _ => None,
        }
    }
}

/// A number of half precision.
pub(super) fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { size } else { -size }
}
