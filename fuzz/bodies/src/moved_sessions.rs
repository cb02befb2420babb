//! Sessions that come from another server.

use weir_server::{AdoptError, SessionSummary, place_session, rewind_session};

/// Bytes that are to be a session: what is read has its bounds, and what is refused has a reason.
pub fn moved_session(input: &[u8]) {
    match SessionSummary::read(input) {
        Ok(read) => {
            // One that goes on at a byte, also of the records of TLS, is one that can go on.
            if let Some(placed) = place_session(input, 7) {
                assert_eq!(SessionSummary::read(&placed).map(|placed| placed.responses).ok(), Some(1));
            }
            assert_eq!(SessionSummary::read(input).ok(), Some(read));
            // The third is that of sound which may go on in another variant.
            assert!(read.version == 3 || read.version == if read.relays > 0 { 2 } else { 1 }, "{read:?}");
            assert!(read.relays <= read.responses.min(64), "each comes by a socket");
            assert!(read.responses <= input.len() && read.responses <= 1024);
            assert!(read.known_bytes == 0 || read.responses > 0, "what it knows is of a response");
            // What was not sent is left out, also of records of TLS.
            for bytes in [1, read.known_bytes] {
                let rewound = rewind_session(input, bytes).map(|rewound| SessionSummary::read(&rewound));
                if let Some(rewound) = rewound.filter(|_| bytes > 0) {
                    assert_eq!(rewound.map(|rewound| rewound.known_bytes).ok(), Some(read.known_bytes - bytes));
                }
            }
            let made_here = (read.responses - read.relays) as u64;
            assert!(read.bytes_to_go >= made_here, "a finished response does not move");
        }
        Err(error) => {
            let is_of_bytes =
                matches!(error, AdoptError::Version { .. } | AdoptError::Malformed { .. } | AdoptError::Path);
            assert!(is_of_bytes && !error.to_string().is_empty(), "{error}");
        }
    }
}
