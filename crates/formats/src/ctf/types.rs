//! The types of a CTF trace's fields, as its metadata describes them.

/// The order of the bytes, and of the bits within them, of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

/// An integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Integer {
    /// Bits, 1 to 64.
    pub(crate) size: u32,
    /// Bits.
    pub(crate) align: u32,
    pub(crate) is_signed: bool,
    pub(crate) order: Order,
    /// It is a character of a text.
    pub(crate) is_text: bool,
    /// It is the lower part of a clock's value.
    pub(crate) is_clock: bool,
}

/// A label of an enumeration, and the values that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) from: i128,
    pub(crate) to: i128,
}

/// A type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Integer(Integer),
    /// A number with a fraction, of 32 or 64 bits.
    Float {
        size: u32,
        align: u32,
        order: Order,
    },
    Enum {
        of: Integer,
        labels: Vec<Label>,
    },
    /// Up to a zero byte.
    String,
    Struct {
        align: u32,
        fields: Vec<(String, Type)>,
    },
    /// By the label of a field that was read before.
    Variant {
        tag: String,
        options: Vec<(String, Type)>,
    },
    /// By the value of a field that was read before (CTF 2).
    Choice {
        selector: String,
        options: Vec<(Vec<(i128, i128)>, Type)>,
    },
    Array {
        of: Box<Type>,
        length: u64,
    },
    /// Its length is the value of a field that was read before.
    Sequence {
        of: Box<Type>,
        length: String,
    },
    /// An integer of as many groups of seven bits as it needs (LEB128, CTF 2).
    Varint {
        is_signed: bool,
        is_clock: bool,
        labels: Vec<Label>,
    },
    /// One of two, by whether a field that was read before is 0 (CTF 2).
    Optional {
        of: Box<Type>,
        selector: String,
    },
}

/// Bytes of a name that count as one more member.
const NAME_BYTES: usize = 32;

impl Type {
    /// How many fields and labels it has, long names counted several times: what a copy of it takes.
    pub(crate) fn members(&self) -> usize {
        let named = |name: &str| 1 + name.len() / NAME_BYTES;
        match self {
            Self::Struct { fields, .. } | Self::Variant { options: fields, .. } => {
                fields.iter().map(|(name, of)| named(name) + of.members()).sum()
            }
            Self::Choice { options, .. } => options.iter().map(|(ranges, of)| 1 + ranges.len() + of.members()).sum(),
            Self::Enum { labels, .. } | Self::Varint { labels, .. } => {
                labels.iter().map(|label| named(&label.name)).sum::<usize>() + 1
            }
            Self::Array { of, .. } | Self::Sequence { of, .. } | Self::Optional { of, .. } => 1 + of.members(),
            Self::Integer(_) | Self::Float { .. } | Self::String => 1,
        }
    }

    /// Where it may begin, bits.
    pub(crate) fn align(&self) -> u32 {
        match self {
            Self::Integer(integer) | Self::Enum { of: integer, .. } => integer.align,
            Self::Float { align, .. } => *align,
            Self::String | Self::Varint { .. } => 8,
            Self::Struct { align, fields } => fields.iter().map(|(_, one)| one.align()).max().unwrap_or(1).max(*align),
            Self::Variant { .. } | Self::Choice { .. } | Self::Optional { .. } => 1,
            Self::Array { of, .. } | Self::Sequence { of, .. } => of.align(),
        }
    }
}

/// A sort of event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventClass {
    pub(crate) name: String,
    pub(crate) context: Option<Type>,
    pub(crate) fields: Option<Type>,
}

/// A sort of stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StreamClass {
    pub(crate) id: u64,
    pub(crate) packet_context: Option<Type>,
    pub(crate) event_header: Option<Type>,
    pub(crate) event_context: Option<Type>,
    /// By their numbers.
    pub(crate) events: std::collections::BTreeMap<u64, EventClass>,
}

/// A trace's metadata.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Metadata {
    pub(crate) order: Order,
    pub(crate) packet_header: Option<Type>,
    pub(crate) streams: Vec<StreamClass>,
    pub(crate) clock: Option<String>,
    /// Ticks of the clock in a second.
    pub(crate) frequency_hz: u64,
    pub(crate) host: Option<String>,
}

impl Default for Metadata {
    fn default() -> Self {
        Self {
            order: Order::Little,
            packet_header: None,
            streams: Vec::new(),
            clock: None,
            frequency_hz: 1_000_000_000,
            host: None,
        }
    }
}

impl Metadata {
    /// The class of a stream, which is made if it was not told before.
    pub(crate) fn stream(&mut self, id: u64) -> &mut StreamClass {
        let at = self.streams.iter().position(|stream| stream.id == id).unwrap_or_else(|| {
            self.streams.push(StreamClass { id, ..StreamClass::default() });
            self.streams.len() - 1
        });
        &mut self.streams[at]
    }
}
