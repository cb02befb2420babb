//! The records of `perf.data`, in the order of time.
//!
//! `perf record` empties the rings of all CPUs in turn and tells when it has gone round
//! (`PERF_RECORD_FINISHED_ROUND`): what it writes in the next round may be earlier than what this one ends with, and what
//! it writes in the one behind that is not. So records of two rounds wait.

use crate::ReadError;
use crate::section::unsigned;
use std::io::{BufRead, ErrorKind, Read};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

// Types of records (Linux, `include/uapi/linux/perf_event.h`, `tools/perf/util/event.h`).
pub(super) const LOST: u32 = 2;
pub(super) const COMM: u32 = 3;
pub(super) const SAMPLE: u32 = 9;
pub(super) const LOST_SAMPLES: u32 = 13;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED_2: u32 = 83;

const HEAD_BYTES: usize = 8;
/// Records that wait, and their bytes. Two rounds have at most what the rings of all CPUs hold, 512 KiB each as `perf`
/// makes them; of what waits beyond, the earlier half is told before its time.
const WAITING_MAX: usize = 1 << 21;
const WAITING_BYTES_MAX: usize = 96 << 20;
/// Bytes that are unpacked at a time.
const UNPACKED_BYTES: usize = 256 << 10;
const WITHIN: &str = "a record of perf.data";

/// A record that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    at_ns: u64,
    /// Where its bytes lie among those that wait, and how many they are.
    place: u32,
    size: u16,
}

/// Records that wait for earlier ones.
#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    order: Vec<Waiting>,
    /// The latest times of the round before, and of all.
    before_ns: u64,
    latest_ns: u64,
}

/// A record without its head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Body<'a> {
    pub(super) kind: u32,
    pub(super) bytes: &'a [u8],
}

/// How records are told apart and put in order.
pub(super) trait Records {
    /// The time of a record that is to be told in its order; none of one that has been dealt with.
    fn time_ns(&mut self, record: Body<'_>) -> Option<u64>;
    /// Takes the next record.
    fn take(&mut self, record: Body<'_>);
}

/// The bytes of records, from a place of the file on.
pub(super) struct Reading<R> {
    input: R,
    at: u64,
    end: u64,
    is_big_endian: bool,
    /// Records after which a round ends without being told, of files of simpleperf.
    round: Option<usize>,
    held: Held,
    in_round: usize,
    unpacker: Option<Decoder<'static>>,
    unpacked: Vec<u8>,
}

impl<R: BufRead> Reading<R> {
    /// `input` stands at the byte `at`; the records end at `end`.
    pub(super) fn new(input: R, (at, end): (u64, u64), is_big_endian: bool, round: Option<usize>) -> Self {
        Self {
            input,
            at,
            end,
            is_big_endian,
            round,
            held: Held::default(),
            in_round: 0,
            unpacker: None,
            unpacked: Vec::new(),
        }
    }

    /// Reads all records.
    pub(super) fn read(&mut self, records: &mut impl Records) -> Result<(), ReadError> {
        let mut scratch = Vec::new();
        while self.at < self.end {
            let outcome = self.next(&mut scratch, records);
            if let Err(error) = outcome {
                self.held.finish(records);
                return Err(error);
            }
        }
        self.held.finish(records);
        Ok(())
    }

    fn next(&mut self, scratch: &mut Vec<u8>, records: &mut impl Records) -> Result<(), ReadError> {
        let (at, is_big_endian) = (self.at, self.is_big_endian);
        let io = |source| ReadError::Io { at, source };
        let room = self.end - at;
        let buffered = self.input.fill_buf().map_err(io)?;
        let buffered = &buffered[..buffered.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        // Nearly all records lie in the buffer as a whole.
        if let Some(size) = whole(buffered, is_big_endian) {
            let (kind, bytes) = (kind(buffered, is_big_endian), &buffered[HEAD_BYTES..size]);
            if !is_packing(kind) {
                let body = Body { kind, bytes };
                let skipped = self.held.told(body, is_big_endian, &mut self.in_round, self.round, records);
                self.input.consume(size);
                self.at += size as u64;
                return self.pass(skipped);
            }
        }
        scratch.resize(HEAD_BYTES, 0);
        self.fill(scratch, at)?;
        let size = size(scratch, is_big_endian);
        if size < HEAD_BYTES {
            return Err(ReadError::wrong(at, format!("a record says that it has {size} bytes")));
        }
        let kind = kind(scratch, is_big_endian);
        scratch.resize(size - HEAD_BYTES, 0);
        self.fill(scratch, at)?;
        if is_packing(kind) {
            return self.unpack(at, packed(kind, scratch, is_big_endian), records);
        }
        let body = Body { kind, bytes: scratch };
        let skipped = self.held.told(body, is_big_endian, &mut self.in_round, self.round, records);
        self.pass(skipped)
    }

    fn fill(&mut self, to: &mut [u8], begin: u64) -> Result<(), ReadError> {
        let cut = || ReadError::Cut { at: begin, within: WITHIN };
        self.at.checked_add(to.len() as u64).filter(|end| *end <= self.end).ok_or_else(cut)?;
        self.input.read_exact(to).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => cut(),
            _ => ReadError::Io { at: begin, source },
        })?;
        self.at += to.len() as u64;
        Ok(())
    }

    /// Passes over what follows a record and is not part of it.
    fn pass(&mut self, bytes: u64) -> Result<(), ReadError> {
        if bytes == 0 {
            return Ok(());
        }
        let at = self.at;
        let end = at.checked_add(bytes).filter(|end| *end <= self.end);
        let end = end.ok_or(ReadError::Cut { at, within: "the trace of a processor (AUX)" })?;
        let passed = std::io::copy(&mut self.input.by_ref().take(bytes), &mut std::io::sink());
        passed.map_err(|source| ReadError::Io { at, source })?;
        self.at = end;
        Ok(())
    }

    fn unpack(&mut self, at: u64, packed: &[u8], records: &mut impl Records) -> Result<(), ReadError> {
        let damaged = |error: std::io::Error| ReadError::wrong(at, format!("packed records are damaged: {error}"));
        if self.unpacker.is_none() {
            self.unpacker = Some(Decoder::new().map_err(damaged)?);
        }
        let Some(unpacker) = &mut self.unpacker else { return Ok(()) };
        let mut input = InBuffer::around(packed);
        loop {
            // Behind what is there of a record that is not whole yet.
            let from = self.unpacked.len();
            self.unpacked.resize(from + UNPACKED_BYTES, 0);
            let mut output = OutBuffer::around_pos(&mut self.unpacked[..], from);
            unpacker.run(&mut input, &mut output).map_err(damaged)?;
            let written = output.pos();
            self.unpacked.truncate(written);
            let is_done = written < from + UNPACKED_BYTES && input.pos() == packed.len();
            let mut taken = 0;
            while let Some(size) = whole(&self.unpacked[taken..], self.is_big_endian) {
                let record = &self.unpacked[taken..taken + size];
                let body = Body { kind: kind(record, self.is_big_endian), bytes: &record[HEAD_BYTES..] };
                self.held.told(body, self.is_big_endian, &mut self.in_round, self.round, records);
                taken += size;
            }
            self.unpacked.drain(..taken);
            if self.unpacked.len() >= HEAD_BYTES && size(&self.unpacked, self.is_big_endian) < HEAD_BYTES {
                return Err(ReadError::wrong(at, "packed records are damaged: one is shorter than its head"));
            }
            if is_done {
                return Ok(());
            }
        }
    }
}

fn kind(head: &[u8], is_big_endian: bool) -> u32 {
    unsigned(&head[..4], is_big_endian) as u32
}

fn size(head: &[u8], is_big_endian: bool) -> usize {
    unsigned(&head[6..8], is_big_endian) as usize
}

/// The size of the record at the begin, if it is there as a whole.
fn whole(bytes: &[u8], is_big_endian: bool) -> Option<usize> {
    let size = size(bytes.get(..HEAD_BYTES)?, is_big_endian);
    (HEAD_BYTES..=bytes.len()).contains(&size).then_some(size)
}

fn is_packing(kind: u32) -> bool {
    kind == COMPRESSED || kind == COMPRESSED_2
}

/// The packed bytes of a record: the newer one says how many they are, as it is filled up to words.
fn packed(kind: u32, body: &[u8], is_big_endian: bool) -> &[u8] {
    if kind == COMPRESSED {
        return body;
    }
    let told = body
        .split_at_checked(8)
        .and_then(|(size, packed)| packed.get(..usize::try_from(unsigned(size, is_big_endian)).ok()?));
    told.unwrap_or_default()
}

impl Held {
    /// Takes a record; how many bytes follow it that are not part of it.
    fn told(
        &mut self,
        record: Body<'_>,
        is_big_endian: bool,
        in_round: &mut usize,
        round: Option<usize>,
        records: &mut impl Records,
    ) -> u64 {
        match record.kind {
            FINISHED_ROUND => self.finish_round(records),
            AUXTRACE => {
                records.time_ns(record);
                return record.bytes.get(..8).map_or(0, |size| unsigned(size, is_big_endian));
            }
            _ => {
                if let Some(at_ns) = records.time_ns(record) {
                    self.push(record, at_ns, records);
                }
                *in_round += 1;
                if round.is_some_and(|round| *in_round >= round) {
                    *in_round = 0;
                    self.finish_round(records);
                }
            }
        }
        0
    }

    fn push(&mut self, Body { kind, bytes }: Body<'_>, at_ns: u64, records: &mut impl Records) {
        if self.order.len() >= WAITING_MAX || self.bytes.len() + bytes.len() > WAITING_BYTES_MAX {
            self.order.sort_by_key(|waiting| waiting.at_ns);
            self.hand_out(self.order.len().div_ceil(2), records);
            self.close_up();
        }
        self.latest_ns = self.latest_ns.max(at_ns);
        self.order.push(Waiting { at_ns, place: self.bytes.len() as u32, size: bytes.len() as u16 });
        // A type of the kernel's is below 256.
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(bytes);
    }

    /// Hands out what no record can be earlier than that is still to come.
    fn finish_round(&mut self, records: &mut impl Records) {
        // Stable: those of one time stay in the order of the file.
        self.order.sort_by_key(|waiting| waiting.at_ns);
        let certain = self.order.partition_point(|waiting| waiting.at_ns <= self.before_ns);
        self.hand_out(certain, records);
        self.before_ns = self.latest_ns;
    }

    fn finish(&mut self, records: &mut impl Records) {
        self.order.sort_by_key(|waiting| waiting.at_ns);
        self.hand_out(self.order.len(), records);
    }

    /// Gives up the bytes between those of records that wait: one that waits for long would keep all behind it.
    fn close_up(&mut self) {
        let mut bytes = Vec::with_capacity(self.bytes.len() / 2);
        for waiting in &mut self.order {
            let from = waiting.place as usize;
            waiting.place = bytes.len() as u32;
            bytes.extend_from_slice(&self.bytes[from..=from + usize::from(waiting.size)]);
        }
        self.bytes = bytes;
    }

    fn hand_out(&mut self, count: usize, records: &mut impl Records) {
        for waiting in self.order.drain(..count) {
            let from = waiting.place as usize;
            let kind = u32::from(self.bytes[from]);
            records.take(Body { kind, bytes: &self.bytes[from + 1..][..usize::from(waiting.size)] });
        }
        // The bytes that no record has any more are given up when they are the more.
        let first = self.order.iter().map(|waiting| waiting.place).min();
        let dead = first.map_or(self.bytes.len(), |first| first as usize);
        if dead > self.bytes.len() / 2 {
            self.bytes.drain(..dead);
            self.order.iter_mut().for_each(|waiting| waiting.place -= dead as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes records whose bytes are their times.
    #[derive(Default)]
    struct Times {
        told: Vec<u64>,
        passed: usize,
    }

    impl Records for Times {
        fn time_ns(&mut self, record: Body<'_>) -> Option<u64> {
            self.passed += usize::from(record.kind != SAMPLE);
            (record.kind == SAMPLE).then(|| unsigned(record.bytes, false))
        }

        fn take(&mut self, record: Body<'_>) {
            self.told.push(unsigned(record.bytes, false));
        }
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &[0, 0], &(8 + body.len() as u16).to_le_bytes(), body].concat()
    }

    fn read(bytes: &[u8], buffer: usize, round: Option<usize>) -> (Times, Result<(), ReadError>) {
        let mut times = Times::default();
        let input = std::io::BufReader::with_capacity(buffer, bytes);
        let outcome = Reading::new(input, (0, bytes.len() as u64), false, round).read(&mut times);
        (times, outcome)
    }

    proptest! {
        #[test]
        fn records_of_two_rounds_that_overlap_are_told_in_order(
            rounds in proptest::collection::vec(proptest::collection::vec(0u64..200, 0..20), 0..8),
            buffer in 1usize..64,
            cut: prop::sample::Index,
        ) {
            let (mut bytes, mut all) = (Vec::new(), Vec::new());
            for (round, times) in (0..).zip(&rounds) {
                for at_ns in times.iter().map(|at_ns| at_ns + round * 100) {
                    all.push(at_ns);
                    bytes.extend(record(SAMPLE, &at_ns.to_le_bytes()));
                }
                // The trace of a processor follows its record, and is none itself.
                bytes.extend(record(AUXTRACE, &3u64.to_le_bytes()));
                bytes.extend([0xff; 3]);
                bytes.extend(record(FINISHED_ROUND, &[]));
            }
            all.sort_unstable();
            let (times, outcome) = read(&bytes, buffer, None);
            prop_assert!(outcome.is_ok(), "{:?}", outcome);
            prop_assert_eq!((&times.told, times.passed), (&all, rounds.len()));
            // What is whole before a cut is told, in order.
            let length = cut.index(bytes.len() + 1);
            let (times, outcome) = read(&bytes[..length], buffer, None);
            prop_assert!(times.told.is_sorted() && times.told.len() <= all.len());
            prop_assert!(outcome.is_ok() || length < bytes.len());
        }
    }

    #[test]
    fn rounds_that_are_not_told_end_after_so_many_records() {
        let bytes: Vec<u8> = [3u64, 1, 2, 5, 4, 9, 8].iter().flat_map(|at| record(SAMPLE, &at.to_le_bytes())).collect();
        let (times, outcome) = read(&bytes, 64, Some(3));
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(times.told, [1, 2, 3, 4, 5, 8, 9]);
    }

    /// Counts records that wait, and how many did at most.
    #[derive(Default)]
    struct Watched {
        waiting: usize,
        most: usize,
    }

    impl Records for Watched {
        fn time_ns(&mut self, _: Body<'_>) -> Option<u64> {
            self.waiting += 1;
            self.most = self.most.max(self.waiting);
            Some(7)
        }

        fn take(&mut self, _: Body<'_>) {
            self.waiting -= 1;
        }
    }

    #[test]
    fn a_record_that_waits_for_ever_keeps_no_others() {
        let body = |at_ns: u64| [&at_ns.to_le_bytes()[..], &[0; 60_000]].concat();
        let (mut held, mut times) = (Held::default(), Times::default());
        let (late, count) = (body(u64::MAX), 4_000);
        held.push(Body { kind: SAMPLE, bytes: &late }, u64::MAX, &mut times);
        for at_ns in 0..count {
            held.push(Body { kind: SAMPLE, bytes: &body(at_ns) }, at_ns, &mut times);
            assert!(held.bytes.len() <= WAITING_BYTES_MAX, "{} bytes", held.bytes.len());
        }
        held.finish(&mut times);
        assert_eq!(times.told, (0..count).chain([u64::MAX]).collect::<Vec<_>>());
    }

    #[test]
    fn what_waits_without_a_round_is_bounded() {
        let bytes = record(SAMPLE, &7u64.to_le_bytes()).repeat(WAITING_MAX + 10);
        let mut watched = Watched::default();
        let mut reading = Reading::new(&bytes[..], (0, bytes.len() as u64), false, None);
        reading.read(&mut watched).expect("it is read");
        // The one that finds no room is counted while the others wait still.
        assert_eq!((watched.waiting, watched.most), (0, WAITING_MAX + 1));
    }

    #[test]
    fn a_record_shorter_than_its_head_is_told_with_its_byte() {
        let bytes = [record(SAMPLE, &7u64.to_le_bytes()), vec![9, 0, 0, 0, 0, 0, 4, 0]].concat();
        let (times, outcome) = read(&bytes, 64, None);
        assert_eq!(times.told, [7]);
        assert!(matches!(outcome, Err(ReadError::Wrong { at: 16, .. })), "{outcome:?}");
    }
}
