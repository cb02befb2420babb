//! From the probes' raw events to what a run keeps: hits with the point's name, and texts without private values.

use super::plan::Point;
use super::query_text::{normalised, whole, without_query};
use std::collections::HashMap;
use weir_wire::probe::{QUERY, REMARK, REQUEST};
use weir_wire::{Kind, Record};

/// Dictionary ids of points begin here, those of texts above.
const FIRST_POINT: u32 = 0x4000_0000;
const FIRST_TEXT: u32 = 0x4100_0000;
/// Texts that are told apart; what comes after is one.
const MOST_TEXTS: usize = 4096;
/// Remarks are hardly ever the same twice, and have their own numbers: behind those of texts, so many.
const FIRST_REMARK: u32 = 0x4200_0000;
const MOST_REMARKS: u32 = 16_384;
const OTHER: &str = "(other)";
/// Pieces of eight bytes that a text may have, as in user_probes.h: 16 chunks of 7.
const MOST_PIECES: usize = 112;
/// In the sub-code of a text's last piece, as in user_probes.h; it arrives as the second byte.
const LAST: u64 = 1;

/// Rewrites raw events.
#[derive(Debug)]
pub(super) struct Rewriter {
    points: Vec<Point>,
    /// As the dictionary tells them.
    told: Vec<String>,
    keep_queries: bool,
    /// By CPU: the text that is being put together.
    halves: HashMap<u32, Half>,
    texts: HashMap<String, u32>,
    remarks: u32,
}

#[derive(Debug, Default)]
struct Half {
    time_ns: u64,
    point: usize,
    bytes: Vec<u8>,
}

impl Rewriter {
    pub(super) fn new(points: Vec<Point>, keep_queries: bool) -> Self {
        let told = points.iter().map(|point| point.told.write()).collect();
        Self { points, told, keep_queries, halves: HashMap::new(), texts: HashMap::new(), remarks: 0 }
    }

    /// Takes a raw event of the user probes and tells what is to be kept of it, each record with its text.
    pub(super) fn rewrite(&mut self, record: &Record, tell: &mut dyn FnMut(Record, (u32, &str))) -> bool {
        if record.kind == Kind::ProbeHit as u16 {
            let point = usize::from(record.flags) | (record.b as usize) << 8;
            self.hit(Record { flags: 0, ..*record }, point, record.a, tell);
            return true;
        }
        if record.kind != Kind::ProbeText as u16 {
            return false;
        }
        let piece = usize::from(record.flags);
        if piece == 0 {
            let half = Half { time_ns: record.time_ns, point: record.a as usize, bytes: Vec::new() };
            self.halves.insert(record.lane, half);
            return true;
        }
        let Some(half) = self.halves.get_mut(&record.lane) else { return true };
        // A piece is missing: the rest is of no use, and the ring has counted the loss.
        if half.time_ns != record.time_ns || half.bytes.len() != (piece - 1) * 8 || piece > MOST_PIECES {
            self.halves.remove(&record.lane);
            return true;
        }
        half.bytes.extend_from_slice(&record.a.to_le_bytes());
        if record.b & LAST != 0
            && let Some(half) = self.halves.remove(&record.lane)
        {
            self.text(Record { flags: 0, ..*record }, &half, tell);
        }
        true
    }

    fn hit(&self, record: Record, point: usize, argument: u64, tell: &mut dyn FnMut(Record, (u32, &str))) {
        let Some(told) = self.told.get(point) else { return };
        let id = FIRST_POINT + point as u32;
        tell(Record { kind: Kind::ProbeHit as u16, a: argument, b: u64::from(id), ..record }, (id, told));
    }

    fn text(&mut self, record: Record, half: &Half, tell: &mut dyn FnMut(Record, (u32, &str))) {
        let Some(point) = self.points.get(half.point) else { return };
        let end = half.bytes.iter().position(|byte| *byte == 0);
        let text = String::from_utf8_lossy(&half.bytes[..end.unwrap_or(half.bytes.len())]).into_owned();
        let is_cut = end.is_none();
        let text = match point.dialect {
            _ if self.keep_queries || point.told.roles & REMARK != 0 => whole(&text, is_cut),
            Some(dialect) if point.told.roles & QUERY != 0 => normalised(&text, dialect, is_cut),
            _ if point.told.roles & REQUEST != 0 => without_query(&text),
            _ => String::new(),
        };
        self.hit(record, half.point, 1, tell);
        let is_remark = point.told.roles & REMARK != 0;
        let (id, text) = if is_remark { self.id_of_remark(text) } else { self.id_of(text) };
        tell(Record { kind: Kind::ProbeText as u16, a: 0, b: u64::from(id), ..record }, (id, &text));
    }

    fn id_of_remark(&mut self, text: String) -> (u32, String) {
        let id = FIRST_REMARK + self.remarks;
        if self.remarks >= MOST_REMARKS {
            return (id, OTHER.to_owned());
        }
        self.remarks += 1;
        (id, text)
    }

    fn id_of(&mut self, text: String) -> (u32, String) {
        if let Some(id) = self.texts.get(&text) {
            return (*id, text);
        }
        let id = FIRST_TEXT + self.texts.len() as u32;
        if self.texts.len() >= MOST_TEXTS {
            return (FIRST_TEXT + MOST_TEXTS as u32, OTHER.to_owned());
        }
        self.texts.insert(text.clone(), id);
        (id, text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::query_text::Dialect;
    use super::*;
    use proptest::prelude::*;
    use weir_wire::probe::{PHASE, ProbePoint};

    fn rewriter(keep_queries: bool) -> Rewriter {
        let point = |name: &str, roles, dialect| Point {
            told: ProbePoint { server: "s".to_owned(), name: name.to_owned(), roles },
            dialect,
        };
        let points = vec![
            point("phase", PHASE, None),
            point("query", QUERY, Some(Dialect::PostgreSql)),
            point("request", REQUEST, None),
            point("decision", REMARK, None),
        ];
        Rewriter::new(points, keep_queries)
    }

    fn raw(kind: Kind, time_ns: u64, sub: u64, a: u64) -> Record {
        Record { time_ns, kind: kind as u16, flags: sub as u8, b: sub >> 8, a, lane: 2, ..Record::default() }
    }

    /// The raw events of a text, as the program writes them.
    fn pieces(time_ns: u64, point: u64, text: &str) -> Vec<Record> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let mut events = vec![raw(Kind::ProbeText, time_ns, 0, point)];
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
            .collect();
        for (index, word) in words.iter().enumerate() {
            let last = if index + 1 == words.len() { 0x100 } else { 0 };
            events.push(raw(Kind::ProbeText, time_ns, (index as u64 + 1) | last, *word));
        }
        events
    }

    fn told(rewriter: &mut Rewriter, events: &[Record]) -> Vec<(Record, String)> {
        let mut out = Vec::new();
        for event in events {
            assert!(rewriter.rewrite(event, &mut |record, (_, text)| out.push((record, text.to_owned()))));
        }
        out
    }

    #[test]
    fn a_hit_gets_its_points_name_and_a_query_loses_its_values() {
        let mut ours = rewriter(false);
        let out = told(&mut ours, &[raw(Kind::ProbeHit, 5, 0, 77)]);
        assert_eq!((out[0].0.a, out[0].1.as_str()), (77, "s\tphase\tphase"));
        let query = "select a from b where c = 'secret'";
        let out = told(&mut ours, &pieces(9, 1, query));
        assert_eq!(
            out.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
            ["s\tquery\tquery", "select a from b where c = ?"]
        );
        assert!(out.iter().all(|(record, _)| record.time_ns == 9 && record.lane == 2));
        assert_eq!(told(&mut rewriter(true), &pieces(9, 1, query))[1].1, query);
        assert_eq!(told(&mut ours, &pieces(9, 2, "GET /a?token=x HTTP/1.1"))[1].1, "GET /a");
        assert_eq!(told(&mut ours, &pieces(9, 0, "of a point without text"))[1].1, "");
        let decision = "flash for /a?b fired: alert 'x'";
        let out = [told(&mut ours, &pieces(9, 3, decision)), told(&mut ours, &pieces(11, 3, decision))].concat();
        assert!(out[1].1 == decision && out[3].1 == decision && out[1].0.b != out[3].0.b, "{out:?}");
    }

    #[test]
    fn a_text_with_a_missing_piece_is_nothing_and_the_next_is_whole() {
        let mut ours = rewriter(false);
        let mut events = pieces(9, 1, "select a_long_name from another_one");
        events.remove(2);
        events.extend(pieces(11, 1, "select b"));
        let out = told(&mut ours, &events);
        assert_eq!(out.last().map(|(_, text)| text.as_str()), Some("select b"));
        assert_eq!(out.len(), 2);
        let unknown = told(&mut ours, &[raw(Kind::ProbeHit, 5, 900, 0)]);
        assert!(unknown.is_empty());
        assert!(!ours.rewrite(&raw(Kind::Switch, 1, 0, 0), &mut |_, _| panic!("not ours")));
    }

    #[test]
    fn the_number_of_texts_is_bounded() {
        let mut ours = rewriter(false);
        let mut last = String::new();
        for number in 0..MOST_TEXTS + 10 {
            let out = told(&mut ours, &pieces(9, 2, &format!("/{number}")));
            last = out[1].1.clone();
        }
        assert_eq!((last.as_str(), ours.texts.len()), (OTHER, MOST_TEXTS));
        for number in 0..MOST_REMARKS + 10 {
            let out = told(&mut ours, &pieces(9, 3, &format!("/{number}")));
            last = out[1].1.clone();
        }
        assert_eq!((last.as_str(), ours.remarks), (OTHER, MOST_REMARKS));
    }

    proptest! {
        #[test]
        fn no_events_break_it(events in proptest::collection::vec((0u64..3, any::<u64>(), 0u64..0x400, any::<bool>()), 0..100)) {
            let mut ours = rewriter(false);
            for (time_ns, a, sub, text) in events {
                let kind = if text { Kind::ProbeText } else { Kind::ProbeHit };
                ours.rewrite(&raw(kind, time_ns, sub, a), &mut |record, _| assert!(record.b >= u64::from(FIRST_POINT)));
                prop_assert!(ours.halves.values().all(|half| half.bytes.len() <= 8 * MOST_PIECES));
            }
        }
    }
}
