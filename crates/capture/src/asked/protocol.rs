//! What the protocols have in common: calls in, questions and answers out.

/// The bytes of a call, as far as they were copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// The first of them.
    pub(super) bytes: &'a [u8],
    /// How many there were.
    pub(super) length: usize,
}

impl<'a> Seen<'a> {
    /// Never more bytes than there were.
    pub(super) fn new(bytes: &'a [u8], length: usize) -> Self {
        Self { bytes: &bytes[..bytes.len().min(length)], length }
    }
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Well, with the status that the protocol gives, if it gives one.
    Fine(Option<String>),
    /// With this error.
    Failed(String),
    /// Its answer was not seen to the place that tells.
    Unseen,
}

/// What a protocol finds in a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fact {
    /// A question of this number was asked: its shape.
    Asked(u64, String),
    /// The first bytes of the answer to this question came.
    Begun(u64),
    /// The answer to this question is whole, as far as it matters.
    Ended(u64, Outcome),
}

/// A protocol on one connection. Takes bytes, gives facts, and keeps no value.
pub(super) trait Protocol: Send + std::fmt::Debug {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Reads what the server gave.
    fn given(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact));

    /// Reads what the server took.
    fn taken(&mut self, seen: Seen<'_>, tell: &mut dyn FnMut(Fact));

    /// Whether the answers can be followed no further: a part that mattered was not copied.
    fn is_lost(&self) -> bool;

    /// The server asks again after answers that could not be followed: what comes next begins a new answer.
    fn resume(&mut self);

    /// Whether the connection turned out to be encrypted or compressed: nothing more can be read of it.
    fn is_closed_to_us(&self) -> bool {
        false
    }
}

/// Numbers of questions where answers come in the order of the questions.
#[derive(Debug, Default)]
pub(super) struct Turns {
    asked: u64,
    answered: u64,
}

impl Turns {
    /// The next question's number.
    pub(super) fn ask(&mut self) -> u64 {
        self.asked += 1;
        self.asked - 1
    }

    /// The number of the question that is answered next.
    pub(super) fn front(&self) -> Option<u64> {
        (self.answered < self.asked).then_some(self.answered)
    }

    /// That question is answered.
    pub(super) fn end(&mut self) {
        self.answered = self.asked.min(self.answered + 1);
    }

    /// All questions are over.
    pub(super) fn clear(&mut self) {
        self.answered = self.asked;
    }
}
