//! The source of questions: puts the copied bytes of calls together, and tells what was asked.

use super::conversation::{Call, Conversation, Told};
use crate::error::CaptureError;
use crate::event_source::{EventSource, TellNamed};
use crate::kind_set::KindSet;
use crate::probes::Probes;
use rustc_hash::FxHashMap;
use weir_wire::asked::{AskedCall, Question};
use weir_wire::{Kind, Record, Slot};

/// Chunks of bytes that the kernel's program copies of what is given in a call, and of what is taken: enough for most
/// statements, and for an error's code.
const QUESTION_CHUNKS: u32 = 9;
const ANSWER_CHUNKS: u32 = 5;
/// Bytes of a chunk, as in http2.h.
const CHUNK_BYTES: u32 = 56;
/// Connections that are read; beyond, those are forgotten that were silent longest.
const MOST_CONNECTIONS: usize = 1 << 14;
/// Calls that are kept until all CPUs have told of their time.
const MOST_CALLS: usize = 1 << 17;
/// Dictionary ids of questions, from there on; what comes after so many is one for each protocol.
const FIRST_NAME: u32 = 0x4400_0000;
const MOST_NAMES: usize = 4096;
const OTHER: &str = "(others)";

/// A call whose bytes are put together, or wait for their turn.
#[derive(Debug, Clone)]
struct Kept {
    at_ns: u64,
    lane: u32,
    call: AskedCall,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Connection {
    conversation: Conversation,
    last_ns: u64,
}

/// The source.
#[derive(Debug)]
pub struct Questions {
    whole: bool,
    calls: Vec<Kept>,
    connections: FxHashMap<u32, Connection>,
    /// Connections that have ended, and when.
    closed: Vec<(u64, u32)>,
    names: FxHashMap<String, u32>,
    looked_ns: u64,
    /// Questions and calls that there was no room for.
    dropped: u64,
}

impl Questions {
    /// Has the probes copy the first bytes of questions and answers; `whole` keeps statements with their values.
    #[must_use]
    pub fn load(probes: &mut Probes, whole: bool) -> Self {
        probes.tell_questions(QUESTION_CHUNKS, ANSWER_CHUNKS);
        Self::new(whole)
    }

    /// A source that reads what is told, without probes of its own.
    #[must_use]
    pub fn new(whole: bool) -> Self {
        Self {
            whole,
            calls: Vec::new(),
            connections: FxHashMap::default(),
            closed: Vec::new(),
            names: FxHashMap::default(),
            looked_ns: 0,
            dropped: 0,
        }
    }

    /// Calls and questions that there was no room for.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped + self.connections.values().map(|one| one.conversation.dropped()).sum::<u64>()
    }

    fn bytes(&mut self, record: &Record) {
        let words = record.a.to_le_bytes();
        let bytes = &words[..usize::from(record.flags).min(words.len())];
        // The pieces of a call stand in a row on their CPU, but for an interrupt's events.
        let ours = |kept: &&mut Kept| kept.lane == record.lane && kept.at_ns == record.time_ns;
        let most = (QUESTION_CHUNKS.max(ANSWER_CHUNKS) * CHUNK_BYTES) as usize;
        if let Some(kept) = self.calls.iter_mut().rev().take(64).find(ours)
            && kept.bytes.len() < most
        {
            kept.bytes.extend_from_slice(bytes);
        }
    }

    /// Reads what was told before a time.
    fn read(&mut self, before_ns: u64, tell: &mut dyn FnMut(u32, Told)) {
        let mut due = Vec::new();
        let calls = std::mem::take(&mut self.calls);
        for kept in calls {
            if kept.at_ns < before_ns { due.push(kept) } else { self.calls.push(kept) }
        }
        due.sort_by_key(|kept| kept.at_ns);
        for Kept { at_ns, call: AskedCall { socket, given, length, pid, .. }, bytes, .. } in due {
            if self.connections.len() >= MOST_CONNECTIONS && !self.connections.contains_key(&socket) {
                self.make_room();
            }
            let fresh = || Connection { conversation: Conversation::new(self.whole), last_ns: 0 };
            let connection = self.connections.entry(socket).or_insert_with(fresh);
            connection.last_ns = at_ns;
            let call = Call { at_ns, pid, given, length: length as usize, bytes: &bytes };
            connection.conversation.push(&call, &mut |told| tell(socket, told));
        }
        let closed = std::mem::take(&mut self.closed);
        for (at_ns, socket) in closed {
            if at_ns >= before_ns {
                self.closed.push((at_ns, socket));
            } else if let Some(mut over) = self.connections.remove(&socket) {
                self.dropped += over.conversation.dropped();
                over.conversation.close(&mut |told| tell(socket, told));
            }
        }
    }

    /// Forgets the half of the connections that were silent longest.
    fn make_room(&mut self) {
        let mut times: Vec<u64> = self.connections.values().map(|one| one.last_ns).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        let before = self.dropped();
        self.connections.retain(|_, one| one.last_ns > median);
        self.dropped = before;
    }

    /// The id of a text, and the text that it stands for.
    fn id_of(&mut self, protocol: &str, text: String) -> (u32, String) {
        if let Some(id) = self.names.get(&text) {
            return (*id, text);
        }
        let text = if self.names.len() < MOST_NAMES { text } else { format!("{protocol}\t{OTHER}\t") };
        if let Some(id) = self.names.get(&text) {
            return (*id, text);
        }
        let id = FIRST_NAME + self.names.len() as u32;
        self.names.insert(text.clone(), id);
        (id, text)
    }
}

impl EventSource for Questions {
    fn name(&self) -> &'static str {
        "questions"
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        Ok(())
    }

    fn detach(&mut self) {
        // The next look reads what is left, and forgets the connections: in a pause they come and go.
        self.looked_ns = u64::MAX;
    }

    fn sees(&self) -> KindSet {
        KindSet::of(&[Kind::SocketState])
    }

    fn rewrites(&self) -> KindSet {
        KindSet::of(&[Kind::AskedCall, Kind::AskedBytes])
    }

    fn see(&mut self, record: &Record, _slots: &[Slot]) {
        if record.kind == Kind::SocketState as u16 && self.closed.len() < MOST_CALLS {
            self.closed.push((record.time_ns, record.a as u32));
        }
    }

    fn rewrite(&mut self, record: &Record, _tell: &mut dyn FnMut(Record, (u32, &str))) -> bool {
        if let Some(call) = AskedCall::read(record) {
            if call.served {
                return false;
            }
            if self.calls.len() < MOST_CALLS {
                self.calls.push(Kept { at_ns: record.time_ns, lane: record.lane, call, bytes: Vec::new() });
            } else {
                self.dropped += 1;
            }
            return true;
        }
        if record.kind != Kind::AskedBytes as u16 {
            return false;
        }
        self.bytes(record);
        true
    }

    fn look_named(&mut self, now_ns: u64, tell: &mut TellNamed<'_>) {
        let mut over = Vec::new();
        self.read(self.looked_ns, &mut |socket, told| over.push((socket, told)));
        if self.looked_ns == u64::MAX {
            self.dropped = self.dropped();
            for (socket, mut one) in self.connections.drain() {
                one.conversation.close(&mut |told| over.push((socket, told)));
            }
        }
        self.looked_ns = now_ns;
        for (socket, told) in over {
            let Told { protocol, shape, status, failed, answered, asked_ns, answered_ns, pid } = told;
            let (id, text) = self.id_of(protocol, format!("{protocol}\t{shape}\t{status}"));
            let (record, slots) =
                Question { socket, name: id, failed, answered, asked_ns, answered_ns, pid }.write(now_ns);
            tell(record, &slots, (id, &text));
        }
    }
}
