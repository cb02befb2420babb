//! Ctrl-C and SIGTERM: the first asks for an end with a report, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user has asked for an end.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
}

impl Stop {
    /// Listens for SIGINT and SIGTERM.
    pub(crate) fn on_signals() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // Registered first, so that it sees the flag as the earlier signal left it.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self { flag })
    }

    /// Whether an end was asked for.
    pub(crate) fn asked(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }
}
