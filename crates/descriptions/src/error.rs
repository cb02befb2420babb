//! Why a file makes no scenario.

use crate::kind::Kind;
use crate::told::Told;
use weir_diagnostic::Mistake;

/// Why a file makes no scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// It is larger than what is read.
    #[error("{name}: it has more than 32 MiB; give a part of it")]
    TooLarge {
        /// The file.
        name: String,
    },
    /// It is wrong; in the order of its lines, at least one.
    #[error("{}", .mistakes.iter().map(|mistake| format!("{name}:{mistake}")).collect::<Vec<_>>().join("\n"))]
    Mistaken {
        /// The file.
        name: String,
        /// What is wrong with it.
        mistakes: Vec<Mistake>,
    },
    /// No request of it can be carried over.
    #[error(
        "{name}: no request is left of {kind}{}; {remedy}",
        .told.iter().map(|told| format!("\n{name}:{told}")).collect::<String>()
    )]
    Nothing {
        /// The file.
        name: String,
        /// What it is.
        kind: Kind,
        /// What became of its requests.
        told: Vec<Told>,
        /// What to do.
        remedy: &'static str,
    },
}
