//! Nested stretches of named time, as Chrome's JSON and Perfetto have them, and the requests among them.

use crate::{Edge, Event, Mark, Markers, Stretch, What};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::hash::Hash;

/// Stretches that are open on a track, and tracks.
const DEPTH_MAX: usize = 512;
const TRACKS_MAX: usize = 1 << 20;
/// All that is open, with its names, bytes.
const BYTES_MAX: usize = 64 << 20;
/// What one of them takes beside its name.
const OPEN_BYTES: usize = 64;

#[derive(Debug)]
struct Open {
    begun_ns: u64,
    name: Box<str>,
    /// The number of the request that it is.
    request: Option<u64>,
}

/// What is open on each track.
#[derive(Debug)]
pub(crate) struct Slices<T> {
    tracks: FxHashMap<T, Vec<Open>>,
    requests: u64,
    bytes: usize,
    /// Begins that there was no room for.
    pub(crate) dropped: u64,
}

impl<T> Default for Slices<T> {
    fn default() -> Self {
        Self { tracks: FxHashMap::default(), requests: 0, bytes: 0, dropped: 0 }
    }
}

impl<T: Hash + Eq> Slices<T> {
    /// A stretch begins on a track at the event's time.
    pub(crate) fn begin<'f>(
        &mut self,
        track: T,
        name: &str,
        event: Event<'_>,
        (markers, field): (&Markers, impl Fn(&str) -> Option<Cow<'f, str>>),
        take: &mut impl FnMut(Event<'_>),
    ) {
        let bytes = OPEN_BYTES + name.len();
        let is_full = self.tracks.len() >= TRACKS_MAX && !self.tracks.contains_key(&track);
        if is_full || self.bytes + bytes > BYTES_MAX {
            self.dropped += 1;
            return;
        }
        let request = self.mark(name, event, (markers, field), take);
        let open = self.tracks.entry(track).or_default();
        if open.len() < DEPTH_MAX {
            self.bytes += bytes;
            open.push(Open { begun_ns: event.at_ns, name: name.into(), request });
        } else {
            self.dropped += 1;
        }
    }

    /// Hands out the begin of a request, if a stretch of this name is one; its number.
    fn mark<'f>(
        &mut self,
        name: &str,
        event: Event<'_>,
        (markers, field): (&Markers, impl Fn(&str) -> Option<Cow<'f, str>>),
        take: &mut impl FnMut(Event<'_>),
    ) -> Option<u64> {
        let called = markers.slice(name, field)?;
        self.requests += 1;
        let key = self.requests.to_string();
        let called = called.unwrap_or(Cow::Borrowed(name));
        let mark = Mark { edge: Edge::Begin, key: Some(&key), name: Some(&called) };
        take(Event { what: What::Mark(mark), ..event });
        Some(self.requests)
    }

    /// The innermost stretch of a track ends; false if none was open.
    pub(crate) fn end(&mut self, track: &T, event: Event<'_>, take: &mut impl FnMut(Event<'_>)) -> bool {
        let Some(open) = self.tracks.get_mut(track).and_then(Vec::pop) else { return false };
        self.bytes = self.bytes.saturating_sub(OPEN_BYTES + open.name.len());
        if self.tracks.get(track).is_some_and(Vec::is_empty) {
            self.tracks.remove(track);
        }
        close(open.begun_ns, &open.name, open.request, event, take);
        true
    }

    /// A stretch that its source tells whole: `event` is its end.
    pub(crate) fn whole<'f>(
        &mut self,
        name: &str,
        begun_ns: u64,
        event: Event<'_>,
        marked: (&Markers, impl Fn(&str) -> Option<Cow<'f, str>>),
        take: &mut impl FnMut(Event<'_>),
    ) {
        let request = self.mark(name, Event { at_ns: begun_ns, ..event }, marked, take);
        close(begun_ns, name, request, event, take);
    }

    /// Stretches that are open still.
    pub(crate) fn open(&self) -> u64 {
        self.tracks.values().map(|open| open.len() as u64).sum()
    }
}

fn close(begun_ns: u64, name: &str, request: Option<u64>, event: Event<'_>, take: &mut impl FnMut(Event<'_>)) {
    if let Some(request) = request {
        let mark = Mark { edge: Edge::End, key: Some(&request.to_string()), name: None };
        take(Event { what: What::Mark(mark), ..event });
    }
    take(Event { what: What::Stretch(Stretch { begun_ns, name }), ..event });
}
