//! What stands in `data`: its first four bytes name the format.
//!
//! ```text
//! 101  arm_getid                 format, 4 flag bytes, 7 x (type, 44 bytes of name)                  344 bytes
//!   1  arm_start, update, stop   format, 4 flag bytes, 6 x 8 bytes, 32 bytes of text, correlator     256 bytes
//!   2  arm_update                format, up to 1020 bytes
//! ```
//!
//! Shorter data is read as far as it goes. Unknown data is passed over, as there is no way to report it to a person.

use weir_arm::{Field, Identity, Telling};

/// The longest data: format 2.
pub(crate) const MOST_BYTES: usize = 1024;
/// Where format 1 has its correlator, and its end.
const CORRELATOR_AT: usize = 88;
const VALUES_BYTES: usize = 256;
/// Where format 1 has its values, its text, and format 101 its metrics.
const VALUES_AT: usize = 8;
const TEXT_AT: usize = 56;
const METRICS_AT: usize = 8;
const METRIC_BYTES: usize = 48;
const SLOTS: u8 = 7;

/// Types of metrics of ARM 2.0 that ARM 4.0 does not have as they are, and ARM 4.0's for a text.
const STRING8: u8 = 9;
const STRING32: u8 = 10;
const CNTRDIVR32: u8 = 3;
const GAUGEDIVR32: u8 = 6;
const WIDE: [u8; 3] = [2, 5, 8];

/// Data by its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data<'a> {
    /// None, or of a format that is not known.
    Nothing,
    /// Format 1.
    Values(Values<'a>),
    /// Format 2, without the format.
    Opaque(&'a [u8]),
    /// Format 101.
    Metrics(&'a [u8]),
}

/// Format 1: what is told of a running transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Values<'a>(&'a [u8]);

/// What a slot's metric means: of format 101.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Metric<'a> {
    /// From 0, as ARM 4.0 counts.
    pub slot: u8,
    /// ARM 2.0's type, 1 to 10.
    pub kind: u8,
    /// Its name.
    pub name: &'a [u8],
}

impl Metric<'_> {
    /// ARM 4.0's format: that of the same number, except that texts of 8 bytes are texts.
    pub(crate) fn format(&self) -> u8 {
        if self.kind == STRING8 { STRING32 } else { self.kind }
    }
}

impl<'a> Data<'a> {
    /// Reads the format.
    pub(crate) fn of(data: &'a [u8]) -> Self {
        match int(data, 0) {
            Some(1) => Self::Values(Values(data)),
            Some(2) => Self::Opaque(&data[4..]),
            Some(101) => Self::Metrics(data),
            _ => Self::Nothing,
        }
    }

    /// Of format 1.
    pub(crate) fn values(&self) -> Option<Values<'a>> {
        if let Self::Values(values) = self { Some(*values) } else { None }
    }

    /// The metrics of format 101 that have a name and a type that their slot may have.
    ///
    /// The flags say which are meant; not knowing how every program sets them, they are heeded only where any is set.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = Metric<'a>> {
        let data = if let Self::Metrics(data) = self { data } else { &[][..] };
        let meant = data.get(5).copied().filter(|flags| *flags != 0).unwrap_or(u8::MAX);
        (0..SLOTS).filter(move |slot| meant & valid(*slot) != 0).filter_map(move |slot| {
            let at = METRICS_AT + usize::from(slot) * METRIC_BYTES;
            let kind = u8::try_from(int(data, at)?).ok()?;
            let name = until_nul(data.get(at + 4..at + METRIC_BYTES)?);
            let fits = if slot == SLOTS - 1 { kind == STRING32 } else { (1..STRING32).contains(&kind) };
            (fits && !name.is_empty()).then_some(Metric { slot, kind, name })
        })
    }

    /// Tells what is told of a running transaction; `types` are those of its slots, four bits each.
    pub(crate) fn tell(&self, types: u32, telling: &mut Telling<'_>) {
        match self {
            Self::Values(values) => {
                for slot in 0..SLOTS {
                    let kind = (types >> (4 * u32::from(slot)) & 0xf) as u8;
                    if let Some(value) = values.metric(slot, kind) {
                        telling.piece(Field::MetricValue, slot, value.bytes());
                    }
                }
            }
            Self::Opaque(bytes) if !bytes.is_empty() => telling.piece(Field::Opaque, 0, bytes),
            Self::Opaque(_) | Self::Metrics(_) | Self::Nothing => {}
        }
    }
}

impl Values<'_> {
    const HAS_PARENT: u8 = 0x80;
    const WANTS_CORRELATOR: u8 = 0x40;
    const TRACE: u8 = 0x20;

    fn flags(self, byte: usize) -> u8 {
        self.0.get(4 + byte).copied().unwrap_or(0)
    }

    /// Its parent.
    pub(crate) fn parent(self) -> Option<Identity> {
        let correlator = self.0.get(CORRELATOR_AT..self.0.len().min(VALUES_BYTES))?;
        Identity::of_correlator(correlator).filter(|_| self.flags(0) & Self::HAS_PARENT != 0)
    }

    /// Whether a correlator is asked for, and there is room for it.
    pub(crate) fn wants_correlator(self) -> bool {
        self.flags(0) & Self::WANTS_CORRELATOR != 0 && self.0.len() >= VALUES_BYTES
    }

    /// Whether tracing is asked for.
    pub(crate) fn traced(self) -> bool {
        self.flags(0) & Self::TRACE != 0
    }

    /// A slot's value; `None` where it is not valid, or what it is was never said.
    fn metric(self, slot: u8, kind: u8) -> Option<Value> {
        if self.flags(1) & valid(slot) == 0 {
            return None;
        }
        let at = VALUES_AT + usize::from(slot) * 8;
        let narrow = || Some(i64::from(int(self.0, at)?).to_ne_bytes());
        Some(match kind {
            0 => return None,
            STRING32 => Value::new(STRING32, 0, until_nul(self.0.get(TEXT_AT..CORRELATOR_AT)?)),
            STRING8 => Value::new(STRING32, 0, until_nul(self.0.get(at..at + 8)?)),
            CNTRDIVR32 | GAUGEDIVR32 => Value::new(kind, int(self.0, at + 4)?, &narrow()?),
            wide if WIDE.contains(&wide) => Value::new(wide, 0, self.0.get(at..at + 8)?),
            _ => Value::new(kind, 0, &narrow()?),
        })
    }
}

/// A metric's value as [`Field::MetricValue`] has it; without the heap, as a handler of a signal may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Value {
    bytes: [u8; 40],
    length: usize,
}

impl Value {
    const HEAD: usize = 8;

    fn new(format: u8, divisor: i32, value: &[u8]) -> Self {
        let mut bytes = [0; 40];
        bytes[..4].copy_from_slice(&[format, 0, 1, 0]);
        bytes[4..Self::HEAD].copy_from_slice(&divisor.to_ne_bytes());
        let length = value.len().min(bytes.len() - Self::HEAD);
        bytes[Self::HEAD..Self::HEAD + length].copy_from_slice(&value[..length]);
        Self { bytes, length: Self::HEAD + length }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Leaves a correlator in data of format 1, the rest of its place empty.
///
/// # Safety
/// `data` points to at least 256 bytes that may be written.
pub(crate) unsafe fn write_correlator(data: *mut u8, correlator: &[u8]) {
    let mut place = [0; VALUES_BYTES - CORRELATOR_AT];
    let length = correlator.len().min(place.len());
    place[..length].copy_from_slice(&correlator[..length]);
    // SAFETY: the caller's promise; the place ends where format 1 does.
    unsafe { std::ptr::copy_nonoverlapping(place.as_ptr(), data.add(CORRELATOR_AT), place.len()) };
}

/// The bit of the second flag byte for a slot, from 0.
fn valid(slot: u8) -> u8 {
    0x80 >> slot
}

fn int(data: &[u8], at: usize) -> Option<i32> {
    let bytes = data.get(at..at + 4)?;
    Some(i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn described(flags: u8, metrics: &[(usize, i32, &str)]) -> Vec<u8> {
        let mut data = vec![0; 344];
        data[..4].copy_from_slice(&101i32.to_ne_bytes());
        data[5] = flags;
        for (slot, kind, name) in metrics {
            let at = 8 + 48 * slot;
            data[at..at + 4].copy_from_slice(&kind.to_ne_bytes());
            data[at + 4..at + 4 + name.len()].copy_from_slice(name.as_bytes());
        }
        data
    }

    #[test]
    fn metrics_are_those_with_a_name_and_a_type_of_their_slot() {
        let all =
            [(0, 1, "rows"), (1, 10, "text out of its slot"), (2, 11, "unknown"), (5, 9, "short"), (6, 10, "part")];
        let names = |data: &[u8]| Data::of(data).metrics().map(|metric| (metric.slot, metric.kind)).collect::<Vec<_>>();
        assert_eq!(names(&described(0, &all)), [(0, 1), (5, 9), (6, 10)]);
        assert_eq!(names(&described(0x82, &all)), [(0, 1), (6, 10)]);
        assert_eq!(names(&described(0, &all)[..100]), [(0, 1)]);
    }

    #[test]
    fn values_are_told_as_arm_4_has_them() {
        let mut data = vec![0; 256];
        data[..4].copy_from_slice(&1i32.to_ne_bytes());
        data[5] = 0b1110_0010;
        data[8..12].copy_from_slice(&(-7i32).to_ne_bytes());
        data[16..20].copy_from_slice(&30i32.to_ne_bytes());
        data[20..24].copy_from_slice(&4i32.to_ne_bytes());
        data[24..32].copy_from_slice(b"eight by");
        data[56..60].copy_from_slice(b"part");
        let values = Data::of(&data).values().expect("format 1");
        let told = |slot, kind| values.metric(slot, kind).map(|value| value.bytes().to_vec());
        let seven = [&[7, 0, 1, 0, 0, 0, 0, 0][..], &(-7i64).to_ne_bytes()].concat();
        assert_eq!(told(0, 7), Some(seven));
        let divided = [&[6, 0, 1, 0][..], &4i32.to_ne_bytes(), &30i64.to_ne_bytes()].concat();
        assert_eq!(told(1, GAUGEDIVR32), Some(divided));
        assert_eq!(told(2, STRING8), Some([&[10, 0, 1, 0, 0, 0, 0, 0][..], b"eight by"].concat()));
        assert_eq!(told(6, STRING32), Some([&[10, 0, 1, 0, 0, 0, 0, 0][..], b"part"].concat()));
        assert_eq!((told(3, 1), told(0, 0)), (None, None), "not valid, and not described");
    }

    proptest! {
        #[test]
        fn no_data_breaks_the_reader(format in prop_oneof![Just(1i32), Just(2), Just(101), any::<i32>()],
                                     rest in proptest::collection::vec(any::<u8>(), 0..1020), types in 0u32..1 << 28) {
            let bytes = [&format.to_ne_bytes()[..], &rest].concat();
            for length in [bytes.len(), bytes.len() / 2, 3] {
                let data = Data::of(&bytes[..length.min(bytes.len())]);
                prop_assert!(data.metrics().count() <= 7);
                if let Some(values) = data.values() {
                    let _ = (values.parent(), values.wants_correlator(), values.traced());
                    for slot in 0..SLOTS {
                        let value = values.metric(slot, (types >> (4 * u32::from(slot)) & 0xf) as u8);
                        prop_assert!(value.is_none_or(|value| (8..=40).contains(&value.length)));
                    }
                }
            }
        }
    }
}
