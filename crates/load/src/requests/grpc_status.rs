//! Statuses of gRPC by their names.

use crate::requests::statuses::{STATUS_CODES, Statuses, StatusesError};

/// The names in the order of their codes (gRPC, statuscodes.md).
const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];
/// The highest code that is counted, whether a name belongs to it or not.
pub(crate) const CODE_MAX: u16 = STATUS_CODES as u16 - 1;

/// What a status of gRPC is called; its number where it has no name.
#[must_use]
pub fn name(code: u16) -> String {
    NAMES.get(usize::from(code)).map_or_else(|| code.to_string(), |name| (*name).to_owned())
}

/// The code of a name, in capitals or not; of the name without underscores as well (`NotFound`).
fn code(text: &str) -> Option<u16> {
    let plain = |text: &str| text.chars().filter(|letter| *letter != '_').collect::<String>().to_ascii_uppercase();
    let wanted = plain(text);
    NAMES.iter().position(|name| plain(name) == wanted).map(|code| code as u16)
}

impl Statuses {
    /// Of gRPC: OK alone.
    #[must_use]
    pub fn grpc_ok() -> Self {
        Self::of_codes(&[0])
    }

    /// Reads names of statuses of gRPC with commas: `OK,NOT_FOUND`.
    ///
    /// # Errors
    /// [`StatusesError::Grpc`] for what is no name.
    pub fn parse_grpc(text: &str) -> Result<Self, StatusesError> {
        let codes: Result<Vec<u16>, _> = text
            .split(',')
            .map(|part| code(part.trim()).ok_or_else(|| StatusesError::Grpc(part.trim().to_owned())))
            .collect();
        Ok(Self::of_codes(&codes?))
    }

    /// The statuses of gRPC among them by name.
    #[must_use]
    pub fn grpc_names(&self) -> String {
        let names: Vec<_> = (0..=CODE_MAX).filter(|code| self.contains(*code)).map(name).collect();
        names.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_shown() {
        let all = NAMES.join(",");
        assert_eq!(Statuses::parse_grpc(&all).expect("names").grpc_names(), all);
        assert_eq!(Statuses::parse_grpc("NotFound, ok").expect("names").grpc_names(), "OK,NOT_FOUND");
        assert_eq!((name(14), name(17)), ("UNAVAILABLE".to_owned(), "17".to_owned()));
        let told = Statuses::parse_grpc("OK,200").expect_err("no name").to_string();
        assert!(told.contains("\"200\"") && told.contains("NOT_FOUND"), "{told}");
    }
}
