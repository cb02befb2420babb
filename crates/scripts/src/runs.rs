//! The run of a script as a business transaction (ARM), whose parent is that of its request.
//!
//! A request that the server reports has a correlator among its variables. The runner reports the run as a child of it,
//! and gives the script the correlator of the run instead, so that what the script reports by itself belongs to the run.

use crate::fastcgi::Pairs;
use std::collections::HashMap;
use weir_arm::{Begin, CORRELATED, Field, Handle, Identity, Sort};

/// The variable of the correlator, in hexadecimal digits, as mod_arm and the extension for PHP name it.
const VARIABLE: &[u8] = b"ARM_CORRELATOR";
/// The application of all runs.
const APPLICATION: &[u8] = b"weir scripts";
/// Names of scripts that one runner reports; all further ones share [`OTHER`].
const NAMES_MAX: usize = 250;
const OTHER: &[u8] = b"(other)";
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 127;
/// Bytes of a correlator (the standard's most).
const CORRELATOR_BYTES_MAX: usize = 512;
/// The version of ARM in use.
const STANDARD: u8 = 4;

/// How a run ended, as the standard numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Ran {
    Good = 0,
    Aborted = 1,
    Failed = 2,
}

/// The runs of one runner, of which one is under way at most.
#[derive(Debug)]
pub(crate) struct Runs {
    /// The application and its instance, and the numbers of transactions, once something was reported.
    defined: Option<(u16, u16)>,
    names: HashMap<Vec<u8>, u16>,
    running: Handle,
}

impl Default for Runs {
    fn default() -> Self {
        Self { defined: None, names: HashMap::new(), running: Handle(0) }
    }
}

impl Runs {
    /// A run begins, if its request is reported: its correlator takes the place of the request's.
    pub(crate) fn begin(&mut self, pairs: &mut [u8]) {
        let Some((at, bytes)) = place_of_correlator(pairs) else { return };
        let Some(parent) = read(&pairs[at..at + bytes]) else { return };
        let mut script = &b""[..];
        for (name, value) in Pairs(pairs).flatten() {
            if name == b"SCRIPT_NAME" {
                script = value;
            }
        }
        let (application, instance) = *self.defined.get_or_insert_with(define);
        let transaction = self.transaction(application, script);
        let begin = Begin { transaction, instance, flags: CORRELATED, parent: Some(parent), ..Begin::default() };
        self.running = weir_arm::start_with(&begin, |telling| telling.piece(Field::Uri, 0, script));
        if self.running.0 == 0 {
            return;
        }
        let own = weir_arm::identity(self.running, Some(parent), false).correlator();
        // Both are correlators of weir, which have one length.
        if bytes == own.len() * 2 {
            for (place, byte) in pairs[at..at + bytes].chunks_exact_mut(2).zip(own) {
                place.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }

    /// It has ended.
    pub(crate) fn end(&mut self, ran: Ran) {
        let running = std::mem::replace(&mut self.running, Handle(0));
        if running.0 != 0 {
            weir_arm::stop(running, ran as u32);
        }
    }

    /// The number of a script's transaction, which is defined when it is first asked for.
    fn transaction(&mut self, application: u16, script: &[u8]) -> u16 {
        let mut name = script.get(..NAME_BYTES_MAX).unwrap_or(script);
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(name) {
            name = OTHER;
        }
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let text = String::from_utf8_lossy(name);
        let number = weir_arm::define(Sort::Transaction, STANDARD, application, |definition| {
            definition.piece(Field::Name, 0, text.as_bytes());
        });
        self.names.insert(name.to_owned(), number);
        number
    }
}

/// The application and its instance.
fn define() -> (u16, u16) {
    let application = weir_arm::define(Sort::Application, STANDARD, 0, |definition| {
        definition.piece(Field::Name, 0, APPLICATION);
    });
    let instance = weir_arm::define(Sort::Instance, STANDARD, application, |_| ());
    // It ends with the process.
    let _ = weir_arm::begin_instance(instance);
    (application, instance)
}

/// Where the correlator's digits stand, and how many they are.
pub fn place_of_correlator(pairs: &[u8]) -> Option<(usize, usize)> {
    let (_, value) = Pairs(pairs).flatten().find(|(name, _)| *name == VARIABLE)?;
    // The value is a part of the pairs.
    let at = (value.as_ptr() as usize).checked_sub(pairs.as_ptr() as usize)?;
    pairs.get(at..at + value.len()).map(|value| (at, value.len()))
}

/// The identity that a correlator says.
pub fn read(digits: &[u8]) -> Option<Identity> {
    if digits.len() > CORRELATOR_BYTES_MAX * 2 || !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |digit: u8| char::from(digit).to_digit(16);
    // Two hexadecimal digits make a byte.
    let byte = |pair: &[u8]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    let bytes: Option<Vec<u8>> = digits.chunks_exact(2).map(byte).collect();
    Identity::of_correlator(&bytes?)
}

fn digit(value: u8) -> u8 {
    b"0123456789abcdef"[usize::from(value & 15)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(of: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, value) in of {
            bytes.extend_from_slice(&[name.len() as u8, value.len() as u8]);
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
        }
        bytes
    }

    #[test]
    fn a_correlator_is_found_and_read_and_nothing_else_is() {
        let identity = Identity { trace: [1, 2], span: 3, flags: Identity::RECORDED, format: Identity::FORMAT };
        let hex: String = identity.correlator().iter().map(|byte| format!("{byte:02x}")).collect();
        let bytes = pairs(&[(b"A", b"1"), (b"ARM_CORRELATOR", hex.as_bytes()), (b"B", b"2")]);
        let (at, length) = place_of_correlator(&bytes).expect("it is there");
        assert_eq!(&bytes[at..at + length], hex.as_bytes());
        assert_eq!(read(&bytes[at..at + length]), Some(identity));
        assert_eq!(place_of_correlator(&pairs(&[(b"HTTP_ARM_CORRELATOR", b"00")])), None);
        for wrong in ["", "0", "zz", "00", &hex[1..]] {
            assert_eq!(read(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(read(&[b'0'; 2 * CORRELATOR_BYTES_MAX + 2]), None);
    }

    #[test]
    fn without_an_agent_the_variables_stay_as_they_are() {
        let identity = Identity { trace: [1, 2], span: 3, flags: 0, format: Identity::FORMAT };
        let hex: String = identity.correlator().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut bytes = pairs(&[(b"ARM_CORRELATOR", hex.as_bytes()), (b"SCRIPT_NAME", b"/a")]);
        let before = bytes.clone();
        let mut runs = Runs::default();
        // It would be recorded if an agent listened at the usual place, and then only the digits differ.
        runs.begin(&mut bytes);
        assert_eq!(bytes.len(), before.len());
        assert!(runs.running.0 != 0 || bytes == before);
        runs.end(Ran::Good);
        assert_eq!(runs.running, Handle(0));
    }

    proptest! {
        #[test]
        fn what_a_correlator_says_is_read_back(trace in any::<[u64; 2]>(), span: u64, before in "[A-Z]{1,9}", cut in 0_usize..56) {
            let identity = Identity { trace, span, flags: Identity::RECORDED, format: Identity::FORMAT };
            let hex: String = identity.correlator().iter().map(|byte| format!("{byte:02X}")).collect();
            let bytes = pairs(&[(before.as_bytes(), b"x"), (b"ARM_CORRELATOR", hex.as_bytes())]);
            let (at, length) = place_of_correlator(&bytes).expect("it is there");
            prop_assert_eq!(read(&bytes[at..at + length]), Some(identity));
            prop_assert_eq!(read(&bytes[at..at + cut]), None, "it says how long it is");
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            if let Some((at, length)) = place_of_correlator(&bytes) {
                prop_assert!(at + length <= bytes.len());
            }
        }
    }
}
