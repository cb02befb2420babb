//! What a call returns: 0, an error below it, a warning above it; and the texts for these numbers.

/// A number that a call returns. An error never leaves an output unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Outcome {
    /// All was done.
    Done = 0,
    /// A pointer that must be given is null.
    Null = -1,
    /// An id stands for nothing that was registered in this process.
    UnknownId = -2,
    /// A handle is not of this process, or what it stood for has ended.
    UnknownHandle = -3,
    /// There is no room for another definition, or no way to keep it.
    NoRoom = -4,
    /// An id that the application chose stands for something else already, or is all zeros or all ones.
    IdRefused = -5,
    /// A correlator is no correlator.
    NoCorrelator = -6,
    /// The encoding of the texts is not supported.
    Charset = -7,
    /// A number is none of those that the header names.
    Number = -8,
    /// Something within the library went wrong.
    Internal = -9,
    /// A text was longer than the standard allows, and was cut.
    Cut = 1,
    /// A part of a sub-buffer was not usable, and was left out.
    LeftOut = 2,
}

impl Outcome {
    const ALL: [(Self, &str); 12] = [
        (Self::Done, "done"),
        (Self::Null, "a pointer that must be given is NULL; nothing was done that needs it"),
        (Self::UnknownId, "the id was not registered in this process; the transaction is shown as unknown"),
        (Self::UnknownHandle, "the handle is not of this process, or what it stood for has ended"),
        (Self::NoRoom, "there is no room for another definition: the program registers new names without end"),
        (
            Self::IdRefused,
            "the id chosen stands for something else already, or is all zeros or all ones: use the one returned",
        ),
        (Self::NoCorrelator, "the correlator is not one: its length must be 4 to 512"),
        (Self::Charset, "this encoding is not supported: use ASCII (3) or UTF-8 (106)"),
        (Self::Number, "a number is none of those that arm4.h names"),
        (Self::Internal, "an error within the ARM library"),
        (Self::Cut, "a text was longer than the standard allows, and was cut"),
        (Self::LeftOut, "a part of a sub-buffer could not be used, and was left out"),
    ];

    /// The text for a number; `None` = it is none of ours.
    pub(crate) fn text(code: i32) -> Option<&'static str> {
        Self::ALL.iter().find(|entry| entry.0 as i32 == code).map(|entry| entry.1)
    }
}

/// What is wrong so far: the first error counts, else the first warning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdict(Outcome);

impl Verdict {
    pub(crate) const fn new() -> Self {
        Self(Outcome::Done)
    }

    pub(crate) fn note(&mut self, outcome: Outcome) {
        let is_worse = self.0 == Outcome::Done || (self.0 as i32 > 0 && (outcome as i32) < 0);
        if is_worse {
            self.0 = outcome;
        }
    }

    pub(crate) fn code(self) -> i32 {
        self.0 as i32
    }
}

/// Runs what is rare; a panic stays within.
pub(crate) fn guarded(run: impl FnOnce(&mut Verdict)) -> i32 {
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut verdict = Verdict::new();
        run(&mut verdict);
        verdict
    }));
    ran.map_or(Outcome::Internal as i32, Verdict::code)
}
