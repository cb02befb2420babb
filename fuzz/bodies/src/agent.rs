//! What the agent reads from untrusted clients, from callers, and from a former agent.

use crate::Choices;
use std::collections::HashMap;
use weir_agent::definitions::{Definitions, Kept, MOST_BYTES_KEPT};
use weir_agent::journal::Line;
use weir_agent::lane_records;
use weir_agent::pairing::{Limits, Pairing, Running, Tell, Whole};
use weir_agent::protocol::Ask;
use weir_agent::transaction::{Status, TransactionId, Wanted};
use weir_measure::account::Reading;
use weir_measure::part::Part;
use weir_wire::arm::{Definition, Handle};
use weir_wire::{Kind, Record, Slot};

const LIMITS: Limits = Limits { running: 32, attribute_bytes: 4096 };

/// Counts what it is told, and finds some begins again.
#[derive(Default)]
struct Heard {
    ended: u64,
    former: HashMap<u64, Vec<Whole>>,
}

impl Tell for Heard {
    fn correlated(&mut self, _: &Running) {}

    fn ended(&mut self, running: Running, end_ns: u64, _: Status) -> Option<Handle> {
        self.ended += 1;
        let _ = running.notes.user();
        if let Some(told) = running.notes.read() {
            let start_ns = running.start_ns.min(end_ns);
            assert!(told.blocked(start_ns, end_ns).0 <= end_ns - start_ns, "blocked for longer than it took");
        }
        if let Some(begun) = &running.begun {
            assert!(begun.at_ns.is_multiple_of(2), "a reading that was not given");
        }
        running.parent.map(|parent| Handle(parent.span))
    }

    fn gone(&mut self, _: &Running) {}

    fn former(&mut self, handle: Handle) -> Vec<Whole> {
        self.former.remove(&handle.0).unwrap_or_default()
    }

    fn unix_offset_ns(&self) -> i64 {
        i64::MAX / 4
    }

    /// Threads that always run, known at every other nanosecond.
    fn read(&mut self, thread: u32, at_ns: u64) -> Option<Reading> {
        let mut times = [0; Part::COUNT];
        times[Part::Run as usize] = at_ns;
        at_ns.is_multiple_of(2).then_some(Reading { account: thread.into(), at_ns, times })
    }
}

/// Definitions, then passes over lanes: for any bytes of a client, each begin is accounted for, and nothing is kept
/// beyond its bound.
pub fn arm_memory(input: &[u8]) {
    let mut choices = Choices(input);
    let length = usize::from(choices.byte());
    let (mut bytes, behind) = choices.0.split_at(length.min(choices.0.len()));
    let (mut kept, mut definitions) = (Kept::default(), Definitions::default());
    while let Some((definition, taken)) = Definition::read(bytes) {
        definitions.take(&definition, &mut kept);
        bytes = &bytes[taken..];
    }
    assert!(kept.size().1 <= MOST_BYTES_KEPT && kept.size().0 <= definitions.count());

    let mut choices = Choices(behind);
    let (mut pairing, mut heard) = (Pairing::new(LIMITS), Heard::default());
    let former = Record { kind: Kind::ArmStart as u16, a: 3, ..Record::default() };
    heard.former.insert(3, vec![(former, Vec::new())]);
    for _ in 0..64 {
        if choices.is_empty() {
            break;
        }
        pairing.begin_pass(choices.byte() & 1 == 1, LIMITS);
        for lane in 0..choices.byte() % 4 {
            let slots: Vec<Slot> = (0..choices.byte() % 32).map(|_| slot(&mut choices)).collect();
            let taken = lane_records::take(&slots, |record, payload| pairing.take(lane, &record, payload, &mut heard));
            assert!(taken.slots <= slots.len());
        }
        pairing.end_pass(&mut heard);
        let counts = pairing.counts;
        let known = counts.finished + counts.discarded + counts.forgotten + pairing.running_count() as u64;
        assert_eq!(counts.started, known, "a begin that no count has");
        assert!(pairing.running_count() <= LIMITS.running && counts.finished == heard.ended);
        // A wait or a stretch of work takes room beside the pieces; each transaction has few of them.
        assert!(pairing.attribute_bytes() < LIMITS.attribute_bytes + 64 * 20_000);
    }
    pairing.end(u64::MAX, &mut heard);
    assert_eq!((pairing.running_count(), pairing.counts.finished), (0, heard.ended));
}

/// A slot of few bytes: small numbers in the places of kind and handle, so that records meet.
fn slot(choices: &mut Choices<'_>) -> Slot {
    let what = choices.byte();
    if what == 255 {
        return [choices.word(), choices.word(), choices.word(), choices.word()];
    }
    let record = Record {
        time_ns: u64::from(choices.byte()),
        kind: 0x0600 + u16::from(what % 16),
        flags: choices.byte(),
        slots: what / 16 % 4,
        lane: 1,
        a: u64::from(choices.byte() % 8),
        b: u64::from(choices.byte()) | u64::from(choices.byte()) << 32,
    };
    record.to_slot()
}

/// Lines: a question over the socket, a line of a journal, an id.
pub fn agent_lines(input: &[u8]) {
    if let Ok(ask) = serde_json::from_slice::<Ask>(input) {
        let again = serde_json::to_vec(&ask).expect("a question is written");
        assert_eq!(serde_json::from_slice::<Ask>(&again).expect("just written"), ask);
    }
    if let Ok(line) = serde_json::from_slice::<Line>(input) {
        let again = serde_json::to_vec(&line).expect("a line is written");
        assert_eq!(serde_json::from_slice::<Line>(&again).expect("just written"), line);
    }
    let text = String::from_utf8_lossy(input);
    if let Ok(id) = text.parse::<TransactionId>() {
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().parse(), Ok(Wanted::Trace(id.trace)));
    }
    let _ = text.parse::<Wanted>();
}
