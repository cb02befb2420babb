//! What packets of a sequence refer to: interned names, tracks, defaults.

use crate::event::shortened;
use crate::protobuf::{Field, Message};
use rustc_hash::FxHashMap;

pub(crate) const SLICE_BEGIN: u64 = 1;
pub(crate) const SLICE_END: u64 = 2;
pub(crate) const INSTANT: u64 = 3;

/// Names, tracks and sequences that are remembered.
const NAMES_MAX: usize = 1 << 20;
const TRACKS_MAX: usize = 1 << 20;
const SEQUENCES_MAX: usize = 1 << 16;
/// Tracks above each other.
const ABOVE_MAX: usize = 16;

/// Whose track it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Track {
    pub(crate) task: Option<u32>,
    pub(crate) process: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Interned {
    Event,
    Annotation,
    Text,
}

#[derive(Debug, Default)]
pub(crate) struct Sequences {
    names: FxHashMap<u64, FxHashMap<(Interned, u64), Box<str>>>,
    /// How many there are of all sequences.
    named: usize,
    tracks: FxHashMap<u64, (Track, Option<u64>)>,
    /// Of each sequence: its clock, and the track of events that name none.
    defaults: FxHashMap<u64, (Option<u64>, u64)>,
}

/// An event on a track.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    pub(crate) kind: u64,
    pub(crate) name: Option<&'a str>,
    pub(crate) uuid: u64,
    pub(crate) track: Option<Track>,
}

impl Sequences {
    /// What was interned is forgotten.
    pub(crate) fn clear(&mut self, sequence: u64) {
        self.named -= self.names.remove(&sequence).map_or(0, |names| names.len());
        self.defaults.remove(&sequence);
    }

    fn name(&self, sequence: u64, sort: Interned, id: u64) -> Option<&str> {
        self.names.get(&sequence)?.get(&(sort, id)).map(|name| &**name)
    }

    pub(crate) fn intern(&mut self, sequence: u64, bytes: &[u8]) {
        for (number, field) in Message::new(bytes) {
            let sort = match number {
                2 => Interned::Event,
                3 => Interned::Annotation,
                29 => Interned::Text,
                _ => continue,
            };
            let (mut id, mut name) = (0, None);
            for (number, field) in Message::new(field.bytes().unwrap_or_default()) {
                match (number, field) {
                    (1, Field::Number(number)) => id = number,
                    (2, field) => name = field.text(),
                    _ => {}
                }
            }
            if let Some(name) = name.filter(|_| self.named < NAMES_MAX) {
                let before = self.names.entry(sequence).or_default().insert((sort, id), shortened(name).into());
                self.named += usize::from(before.is_none());
            }
        }
    }

    pub(crate) fn defaults(&mut self, sequence: u64, bytes: &[u8]) {
        const CLOCK: u32 = 58;
        const TRACK_EVENT: u32 = 11;
        const TRACK: u32 = 11;
        let (mut clock, mut track) = (None, 0);
        for (number, field) in Message::new(bytes) {
            match (number, field) {
                (CLOCK, Field::Number(number)) => clock = Some(number),
                (TRACK_EVENT, Field::Bytes(event)) => {
                    let told = Message::new(event).find(|(number, _)| *number == TRACK);
                    track = told.and_then(|(_, field)| field.number()).unwrap_or(0);
                }
                _ => {}
            }
        }
        if self.defaults.len() < SEQUENCES_MAX {
            self.defaults.insert(sequence, (clock, track));
        }
    }

    /// The clock of a sequence's times.
    pub(crate) fn clock(&self, sequence: u64) -> Option<u64> {
        self.defaults.get(&sequence).and_then(|(clock, _)| *clock)
    }

    /// Takes a track's description; its thread, and what that is called.
    pub(crate) fn describe(&mut self, bytes: &[u8]) -> Option<(Track, Option<String>)> {
        let (mut uuid, mut above, mut track, mut name) = (0, None, Track::default(), None);
        for (number, field) in Message::new(bytes) {
            match (number, field) {
                (1, Field::Number(number)) => uuid = number,
                (5, Field::Number(number)) => above = Some(number),
                (3, Field::Bytes(process)) => {
                    let own = Message::new(process).find(|(number, _)| *number == 1);
                    track.process = own.and_then(|(_, field)| field.number()).map(|number| number as u32);
                }
                (4, Field::Bytes(thread)) => {
                    for (number, field) in Message::new(thread) {
                        match (number, field) {
                            (1, Field::Number(number)) => track.process = Some(number as u32),
                            (2, Field::Number(number)) => track.task = Some(number as u32),
                            (5, field) => name = field.text().map(str::to_owned),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        if self.tracks.len() < TRACKS_MAX {
            self.tracks.insert(uuid, (track, above));
        }
        Some((track, name))
    }

    /// Whose a track is: its own, or that of the next one above it that is a thread's or a process's.
    fn track(&self, uuid: u64) -> Option<Track> {
        let mut next = uuid;
        for _ in 0..ABOVE_MAX {
            let (track, above) = self.tracks.get(&next)?;
            if *track != Track::default() {
                return Some(*track);
            }
            next = (*above)?;
        }
        None
    }

    pub(crate) fn event<'a>(&'a self, sequence: u64, bytes: &'a [u8]) -> Told<'a> {
        let (mut kind, mut name, mut uuid) = (0, None, None);
        for (number, field) in Message::new(bytes) {
            match (number, field) {
                (9, Field::Number(number)) => kind = number,
                (10, Field::Number(id)) => {
                    name = self.name(sequence, Interned::Event, id);
                }
                (23, field) => name = field.text(),
                (11, Field::Number(number)) => uuid = Some(number),
                _ => {}
            }
        }
        let uuid = uuid.or_else(|| self.defaults.get(&sequence).map(|(_, track)| *track)).unwrap_or(0);
        Told { kind, name, uuid, track: self.track(uuid) }
    }

    /// A debug annotation of an event, as text.
    pub(crate) fn annotation(&self, sequence: u64, event: &[u8], name: &str) -> Option<String> {
        Message::new(event).filter(|(number, _)| *number == 4).find_map(|(_, field)| {
            let (mut is_it, mut value) = (false, None);
            for (number, field) in Message::new(field.bytes()?) {
                match (number, field) {
                    (1, Field::Number(id)) => {
                        is_it = self.name(sequence, Interned::Annotation, id) == Some(name);
                    }
                    (10, field) => is_it = field.text() == Some(name),
                    (2, Field::Number(is)) => value = Some((is != 0).to_string()),
                    (3, Field::Number(number)) => value = Some(number.to_string()),
                    (4, Field::Number(number)) => value = Some(number.cast_signed().to_string()),
                    (5, Field::Number(bits)) => value = Some(f64::from_bits(bits).to_string()),
                    (6, field) => value = field.text().map(str::to_owned),
                    (17, Field::Number(id)) => {
                        value = self.name(sequence, Interned::Text, id).map(str::to_owned);
                    }
                    _ => {}
                }
            }
            value.filter(|_| is_it)
        })
    }
}
