//! What a session may seal, once another process has its keys and the number of a record: these records and no others,
//! until the client has shown that no other process goes on with it.

use super::form::{get, put, take};
use super::layout::{Found, Layout};
use super::records::PLAINTEXT_BYTES_MAX;
use std::borrow::Cow;

/// Written in place of a promise.
const SPENT: u8 = 0;
const RESPONSE: u8 = 1;
const REPEATED: u8 = 2;
/// Bytes of a record at most, with what it has beside its plaintext.
const RECORD_BYTES_MAX: u32 = (PLAINTEXT_BYTES_MAX + 64) as u32;

/// What a session may seal.
#[derive(Debug, Default)]
pub(super) enum Promise {
    /// Anything: no other process goes on with it.
    #[default]
    Free,
    /// The rest of one response, in records that are fixed.
    Response(Box<Fixed>),
    /// Nothing: that response is sealed, and another process may seal the next one.
    Spent,
}

/// The rest of a response of which the records are fixed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fixed {
    layout: Layout,
    /// Where the next record begins, in the response.
    at: u64,
    /// What was taken of its bytes.
    pending: Vec<u8>,
    /// Bytes of the next record that the client has.
    skip: usize,
    then: Then,
}

/// What the session may seal behind such a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing, as another process may have gone on there.
    Nothing,
    /// Anything: no other process goes on with it, and its records are fixed as some of them are made again.
    Anything,
}

impl Promise {
    /// The client was heard.
    pub(super) fn hear(&mut self) {
        if matches!(self, Self::Spent) {
            *self = Self::Free;
        }
    }

    /// Bytes that it takes when it is written, or some more.
    pub(super) fn written_bytes(&self) -> usize {
        if let Self::Response(fixed) = self { 64 + fixed.pending.len() } else { 1 }
    }

    /// Writes it behind a session; nothing, where the session may seal anything.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Free => {}
            Self::Spent => out.push(SPENT),
            Self::Response(fixed) => {
                let Fixed { layout: Layout { known_from, joint, end }, at, pending, skip, then } = &**fixed;
                out.push(if *then == Then::Nothing { RESPONSE } else { REPEATED });
                [known_from, joint, end, at].into_iter().for_each(|place| out.extend_from_slice(&place.to_be_bytes()));
                // At most a record.
                out.extend_from_slice(&(*skip as u32).to_be_bytes());
                put(out, pending);
            }
        }
    }

    /// Reads one that was written; none if it cannot be.
    pub(super) fn read(rest: &mut &[u8]) -> Option<Self> {
        let [kind] = take(rest)?;
        let then = match kind {
            SPENT => return Some(Self::Spent),
            RESPONSE => Then::Nothing,
            REPEATED => Then::Anything,
            _ => return None,
        };
        let mut place = || Some(u64::from_be_bytes(take(rest)?));
        let (layout, at) = (Layout { known_from: place()?, joint: place()?, end: place()? }, place()?);
        let skip = u32::from_be_bytes(take(rest)?);
        let pending = get(rest, PLAINTEXT_BYTES_MAX)?.to_vec();
        let is_sound = layout.is_sound(at) && skip < RECORD_BYTES_MAX;
        let fixed = Fixed { layout, at, pending, skip: skip as usize, then };
        (is_sound && fixed.missing() > 0).then(|| Self::Response(Box::new(fixed)))
    }
}

impl Fixed {
    /// From the record on that begins at this place.
    pub(super) fn new(layout: Layout, at: u64) -> Self {
        Self { layout, at, pending: Vec::new(), skip: 0, then: Then::Nothing }
    }

    /// With what the session may seal behind it.
    pub(super) fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }

    /// From a byte of the records on.
    pub(super) fn placed(&self, found: Found) -> Self {
        // It is below the bytes of a record.
        Self { at: found.at, skip: found.skip as usize, pending: Vec::new(), ..*self }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the next record begins.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Bytes of the next record that the client has.
    pub(super) fn skip(&self) -> usize {
        self.skip
    }

    /// Bytes of the response that were taken: those that are sealed, and those that are pending.
    pub(super) fn taken(&self) -> u64 {
        self.at + self.pending.len() as u64
    }

    /// The promise behind what was taken of the response.
    pub(super) fn promise(self) -> Promise {
        match self.then {
            _ if self.left() > 0 => Promise::Response(Box::new(self)),
            Then::Nothing => Promise::Spent,
            Then::Anything => Promise::Free,
        }
    }

    /// Bytes of the response that were not taken.
    pub(super) fn left(&self) -> u64 {
        self.layout.end - self.taken()
    }

    /// Bytes until the next record is full.
    pub(super) fn missing(&self) -> usize {
        // At most those of a record.
        (self.layout.record_bytes(self.at) as usize).saturating_sub(self.pending.len())
    }

    /// Takes at most as many bytes as are missing: the record's plaintext if it is full, and how many bytes of the record
    /// the client has.
    pub(super) fn fill<'b>(&mut self, bytes: &'b [u8]) -> Option<(Cow<'b, [u8]>, usize)> {
        if bytes.len() < self.missing() {
            self.pending.extend_from_slice(bytes);
            return None;
        }
        let plain = if self.pending.is_empty() {
            Cow::Borrowed(bytes)
        } else {
            self.pending.extend_from_slice(bytes);
            Cow::Owned(std::mem::take(&mut self.pending))
        };
        self.at += plain.len() as u64;
        Some((plain, std::mem::take(&mut self.skip)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LAYOUT: Layout = Layout { known_from: 10, joint: 500, end: 40_000 };

    #[test]
    fn a_promise_that_cannot_be_kept_is_not_read() {
        let written = |change: &dyn Fn(&mut Fixed)| {
            let mut fixed = Fixed { pending: vec![1; 489], skip: 16_400, ..Fixed::new(LAYOUT, 10) };
            change(&mut fixed);
            let mut out = Vec::new();
            Promise::Response(Box::new(fixed)).write(&mut out);
            Promise::read(&mut out.as_slice())
        };
        assert!(matches!(written(&|_| {}), Some(Promise::Response(read)) if read.pending.len() == 489));
        assert!(written(&|fixed| fixed.at = 40_000).is_none(), "nothing is left");
        assert!(written(&|fixed| fixed.at = 600).is_none(), "no record begins there");
        assert!(written(&|fixed| fixed.pending.push(1)).is_none(), "a full record does not wait");
        assert!(written(&|fixed| fixed.skip = 1 << 20).is_none(), "more than a record");
        assert!(Promise::read(&mut &b"\x03"[..]).is_none() && Promise::read(&mut &b""[..]).is_none());
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_make_the_same_records(
            at in 0_usize..4, pieces in proptest::collection::vec(1_usize..20_000, 1..60),
        ) {
            let starts = [10, 500, 16_884, 33_268];
            let content: Vec<u8> = (0..40_000_u32).map(|at| (at % 251) as u8).collect();
            let mut fixed = Fixed::new(LAYOUT, starts[at]);
            let (mut from, mut records) = (starts[at] as usize, Vec::new());
            for mut piece in pieces {
                while piece > 0 && fixed.left() > 0 {
                    let now = fixed.missing().min(piece);
                    piece -= now;
                    if let Some((plain, skip)) = fixed.fill(&content[from..from + now]) {
                        prop_assert_eq!(skip, 0);
                        records.push(plain.into_owned());
                    }
                    from += now;
                    prop_assert_eq!(fixed.taken(), from as u64);
                }
            }
            let ends = [500, 16_884, 33_268, 40_000];
            for (place, record) in records.iter().enumerate() {
                prop_assert!(record[..] == content[starts[at + place] as usize..ends[at + place]]);
            }
        }

        #[test]
        fn no_bytes_bring_down_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 0_u8..3) {
            let all = [&[kind][..], &bytes].concat();
            let mut rest = all.as_slice();
            if let Some(read) = Promise::read(&mut rest) {
                let mut again = Vec::new();
                read.write(&mut again);
                prop_assert_eq!(&again[..], &all[..all.len() - rest.len()]);
            }
        }
    }
}
