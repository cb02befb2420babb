//! A place where a TLS library has opened a record, or is given bytes to seal, and what is found there.

use super::register::Register;
use weir_wire::quic::QuicEvent;

/// A cookie, as in streams.h: which kind of place, a register, how far something is from what that points to.
const REGISTER: u32 = 4;
const OFFSET: u32 = 9;

/// What is found at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsPlace {
    /// OpenSSL copies an opened record to the server: the second and third argument are its bytes and their number.
    OpensslOpens {
        /// Points to the record.
        record: Register,
        /// How far the record is behind the connection's beginning, bytes.
        record_offset: u64,
    },
    /// OpenSSL seals: connection, type, bytes, their number.
    OpensslSeals,
    /// OpenSSL from 3.2 on copies an opened record to the server: as before.
    LayerOpens {
        /// Points to the record.
        record: Register,
        /// How far the first record is behind the connection's beginning, bytes.
        record_offset: u64,
    },
    /// OpenSSL from 3.2 on seals: its record layer, what records are to be made of, how many.
    LayerSeals {
        /// Points to the connection, as its caller has it.
        connection: Register,
    },
    /// Go's crypto/tls has opened a record, which lies in the connection as a reader of bytes.
    GoOpens {
        /// Points to the connection.
        connection: Register,
        /// How far the reader is behind the connection's beginning, bytes.
        input_offset: u64,
    },
    /// Go's crypto/tls seals: connection, type, bytes, their number, in the registers of Go.
    GoSeals,
    /// A mark: session, bytes, their number.
    MarkOpens,
    /// A mark: session, pieces of bytes, how many pieces, how many bytes.
    MarkSeals,
    /// A mark of HTTP/3: connection, stream, two numbers.
    MarkQuic(QuicEvent),
}

impl TlsPlace {
    /// What the program in the kernel is told of it.
    #[must_use]
    pub fn cookie(self) -> u64 {
        match self {
            Self::OpensslOpens { record, record_offset } => {
                u64::from(record.place()) << REGISTER | record_offset << OFFSET
            }
            Self::OpensslSeals => 1,
            Self::LayerOpens { record, record_offset } => {
                8 | u64::from(record.place()) << REGISTER | record_offset << OFFSET
            }
            Self::LayerSeals { connection } => 9 | u64::from(connection.place()) << REGISTER,
            Self::GoOpens { connection, input_offset } => {
                2 | u64::from(connection.place()) << REGISTER | input_offset << OFFSET
            }
            Self::GoSeals => 3,
            Self::MarkOpens => 4,
            Self::MarkSeals => 5,
            Self::MarkQuic(told) => 6 | (told as u64) << OFFSET,
        }
    }
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsSite {
    /// From the file's beginning.
    pub offset: u64,
    /// What is found there.
    pub place: TlsPlace,
}
