//! What the other side of a connection allows (RFC 9113 section 6.5.2, RFC 8441 section 3).

use crate::http::frames::frame::{Code, PAYLOAD_BYTES_MAX, WINDOW_MAX};

/// The window of a stream, and of a connection, unless something else is said (RFC 9113 section 6.9.2).
pub(crate) const WINDOW_BYTES: i64 = 65_535;

/// What an upstream has said so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerSettings {
    /// The window of streams at their beginning.
    pub(crate) window: i64,
    /// Streams that may be open at once.
    pub(crate) streams_max: u32,
    /// Whether a stream may become a tunnel.
    pub(crate) takes_tunnels: bool,
    /// Whether it has said anything yet.
    pub(crate) is_known: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self { window: WINDOW_BYTES, streams_max: u32::MAX, takes_tunnels: false, is_known: false }
    }
}

impl PeerSettings {
    /// Takes up a frame of settings. What we never do, or do less of than we may, is only checked.
    ///
    /// # Errors
    ///
    /// The code with which the connection ends.
    pub(crate) fn take(&mut self, payload: &[u8]) -> Result<(), Code> {
        let (pairs, []) = payload.as_chunks::<6>() else { return Err(Code::FrameSize) };
        for [a, b, value @ ..] in pairs {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                // A server does not let itself be pushed to.
                2 if value != 0 => return Err(Code::Protocol),
                3 => self.streams_max = value,
                4 if i64::from(value) > WINDOW_MAX => return Err(Code::FlowControl),
                4 => self.window = i64::from(value),
                5 if !(PAYLOAD_BYTES_MAX as u32..1 << 24).contains(&value) => return Err(Code::Protocol),
                8 if value > 1 => return Err(Code::Protocol),
                8 if value == 0 && self.takes_tunnels => return Err(Code::Protocol),
                8 => self.takes_tunnels = value == 1,
                _ => {}
            }
        }
        self.is_known = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pairs: &[(u16, u32)]) -> Result<PeerSettings, Code> {
        let mut settings = PeerSettings::default();
        let payload: Vec<u8> =
            pairs.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        settings.take(&payload).map(|()| settings)
    }

    #[test]
    fn settings_are_taken_up_or_refused() {
        let all = taken(&[(3, 7), (4, 100), (5, 16_384), (8, 1), (1, 0), (99, 5)]).expect("right");
        assert_eq!(all, PeerSettings { window: 100, streams_max: 7, takes_tunnels: true, is_known: true });
        assert!(taken(&[]).expect("right").is_known);
        for (pair, code) in [
            ((2, 1), Code::Protocol),
            ((4, 1 << 31), Code::FlowControl),
            ((5, 16_383), Code::Protocol),
            ((5, 1 << 24), Code::Protocol),
            ((8, 2), Code::Protocol),
        ] {
            assert_eq!(taken(&[pair]), Err(code), "{pair:?}");
        }
        assert_eq!(taken(&[(8, 1), (8, 0)]), Err(Code::Protocol));
        assert_eq!(PeerSettings::default().take(&[0; 5]), Err(Code::FrameSize));
    }
}
