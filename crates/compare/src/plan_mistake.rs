//! What can be wrong with what a plan file says.
use crate::error::PlanError;
use crate::ports::NoFreePort;
use crate::ready_made::ReadyMadeError;
use crate::target::TargetError;

/// Why what a plan file says makes no experiment, and what would be right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanMistake {
    /// There is nothing to compare.
    #[error("it names no [[subject]]; write one for each thing that is compared")]
    NoSubjects,
    /// A subject that says neither its name nor the ready-made server that would name it.
    #[error("a [[subject]] has no name; give it one, or say from which ready-made server it is")]
    NoName,
    /// A subject on the server of another says something of a server.
    #[error("subject {subject:?} uses the server of another; {key} is to be said of that one")]
    OfAnother {
        /// The subject.
        subject: String,
        /// What it says.
        key: &'static str,
    },
    /// The subject whose server another is to use is not known.
    #[error("subject {subject:?} is to use the server of {of:?}, which does not stand before it")]
    NotBefore {
        /// The subject.
        subject: String,
        /// The one whose server it names.
        of: String,
    },
    /// There is no ready-made server of that name.
    #[error("subject {subject:?} is from {from:?}, which is none of {known}")]
    UnknownReadyMade {
        /// The subject.
        subject: String,
        /// The name.
        from: String,
        /// Those that there are.
        known: String,
    },
    /// A ready-made server already has what the subject says.
    #[error(
        "subject {subject:?} is from {from:?}, which says itself what {key} says; leave it away, or write command in place of from"
    )]
    SaidByReadyMade {
        /// The subject.
        subject: String,
        /// The ready-made server.
        from: &'static str,
        /// What the subject says.
        key: &'static str,
    },
    /// Only ready-made servers have this.
    #[error("subject {subject:?} has {key}, which is for ready-made servers (from = \"nginx\")")]
    ForReadyMade {
        /// The subject.
        subject: String,
        /// What it says.
        key: &'static str,
    },
    /// A subject without a server.
    #[error(
        "subject {subject:?} needs command (its server's), from (a ready-made server) or server (the name of the subject whose server it uses)"
    )]
    NoCommand {
        /// The subject.
        subject: String,
    },
    /// A subject that does not say where it is reached.
    #[error("subject {subject:?} needs url, such as \"http://127.0.0.1:8080\"")]
    NoUrl {
        /// The subject.
        subject: String,
    },
    /// A case names a subject that is not there.
    #[error("case {case:?} names the subject {subject:?}; there are {known}")]
    UnknownSubject {
        /// The case.
        case: String,
        /// The name.
        subject: String,
        /// Those that there are.
        known: String,
    },
    /// A case asks a subject for a script that runs none.
    #[error("case {case:?}, subject {subject:?}: it runs no scripts; name those that take part with subjects = [...]")]
    NoScripts {
        /// The case.
        case: String,
        /// The subject.
        subject: String,
    },
    /// A subject of a case is reached at no usable URL.
    #[error("case {case:?}, subject {subject:?}: {source}")]
    Target {
        /// The case.
        case: String,
        /// The subject.
        subject: String,
        /// What is wrong with it.
        source: TargetError,
    },
    /// A ready-made server gets no port.
    #[error(transparent)]
    Port(#[from] NoFreePort),
    /// A ready-made server cannot be had like this.
    #[error(transparent)]
    ReadyMade(#[from] ReadyMadeError),
    /// A value is out of its range.
    #[error(transparent)]
    Plan(#[from] PlanError),
}
