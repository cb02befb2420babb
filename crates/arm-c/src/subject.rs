//! What a call is about: the transaction and the application's instance, its status, and what its buffers tell.

use crate::buffer::Buffers;
use crate::outcome::{Outcome, Verdict};
use crate::types::Id;
use weir_arm::{Sort, State, Telling};

/// `ARM_FLAG_TRACE_REQUEST`.
pub(crate) const FLAG_TRACE: i32 = 1;
/// The greatest status, `ARM_STATUS_UNKNOWN`.
pub(crate) const UNKNOWN: u32 = 3;

/// What is started, as far as its ids and handles are known.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) transaction: u16,
    pub(crate) instance: u16,
    pub(crate) outcome: Outcome,
    pub(crate) state: State,
}

impl Subject {
    /// # Safety
    /// `tran_id` is null or points to an id.
    pub(crate) unsafe fn of(app_handle: i64, tran_id: *const Id) -> Self {
        // SAFETY: as the caller promises.
        let id = unsafe { tran_id.as_ref() };
        let transaction = id.map_or(0, |id| weir_arm::live_number_of(Sort::Transaction, &id.0));
        let instance = weir_arm::running_instance(app_handle);
        if transaction != 0 && instance != 0 {
            return Self { transaction, instance, outcome: Outcome::Done, state: State::Live };
        }
        // SAFETY: as the caller promises.
        unsafe { Self::of_other(app_handle, tran_id) }
    }

    /// What is wrong with it, where something is; and ids that the application chose.
    ///
    /// # Safety
    /// As for [`Subject::of`].
    #[cold]
    unsafe fn of_other(app_handle: i64, tran_id: *const Id) -> Self {
        // SAFETY: as the caller promises.
        let id = unsafe { tran_id.as_ref() };
        let transaction = id.map_or(0, |id| weir_arm::number_of(Sort::Transaction, &id.0));
        let instance = weir_arm::instance_of(app_handle);
        let state = weir_arm::state_of(transaction);
        let outcome = if id.is_none() {
            Outcome::Null
        } else if transaction == 0 || state != State::Live {
            Outcome::UnknownId
        } else if instance.is_none() || app_handle == 0 {
            Outcome::UnknownHandle
        } else {
            Outcome::Done
        };
        Self { transaction, instance: instance.unwrap_or(0), outcome, state }
    }

    /// Notes what is wrong with it. A muted transaction is all right.
    pub(crate) fn judge(&self, verdict: &mut Verdict) {
        if self.state != State::Muted {
            verdict.note(self.outcome);
        }
    }
}

/// A status that is none counts as unknown.
pub(crate) fn known_status(status: i32, verdict: &mut Verdict) -> u32 {
    u32::try_from(status).ok().filter(|status| *status <= UNKNOWN).unwrap_or_else(|| {
        verdict.note(Outcome::Number);
        UNKNOWN
    })
}

pub(crate) fn details(buffers: Buffers<'_>, telling: &mut Telling<'_>, verdict: &mut Verdict) {
    buffers.details(telling, verdict);
}
