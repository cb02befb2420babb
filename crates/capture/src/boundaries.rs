//! Where request boundaries come from: the spine's own tracepoints, or the programs of a lower rung beside it.

use crate::arrivals::Arrivals;
use crate::bound::Rung;
use crate::calls::Calls;
use crate::error::CaptureError;
use crate::functions::Functions;
use crate::probes::Probes;
use crate::servers::Servers;
use libbpf_rs::Link;

/// The loaded programs of a rung.
pub(crate) enum Boundaries {
    /// The socket tracepoints, which are part of the spine.
    InTheSpine,
    /// TCP's functions.
    Functions(Functions),
    /// System calls, and arrivals apart.
    Calls(Calls, Arrivals),
    /// Functions of known servers, and arrivals apart.
    Servers(Servers, Arrivals),
}

impl Boundaries {
    /// Whether a rung finds its sockets by their descriptors.
    pub(crate) fn by_descriptor(rung: Rung) -> bool {
        matches!(rung, Rung::SystemCalls | Rung::UserProbes)
    }

    pub(crate) fn load(rung: Rung, probes: &Probes) -> Result<Self, CaptureError> {
        match rung {
            Rung::SocketTracepoints => Ok(Self::InTheSpine),
            Rung::Functions => Functions::load(probes).map(Self::Functions),
            Rung::SystemCalls => Ok(Self::Calls(Calls::load(probes)?, Arrivals::load(probes)?)),
            Rung::UserProbes => Ok(Self::Servers(Servers::load(probes)?, Arrivals::load(probes)?)),
            Rung::ProcOnly | Rung::ClientOnly => Err(CaptureError::NoProbes { rung: rung.name() }),
        }
    }

    pub(crate) fn rung(&self) -> Rung {
        match self {
            Self::InTheSpine => Rung::SocketTracepoints,
            Self::Functions(_) => Rung::Functions,
            Self::Calls(..) => Rung::SystemCalls,
            Self::Servers(..) => Rung::UserProbes,
        }
    }

    /// Attaches them, for a server of these processes; detached when the links are dropped.
    pub(crate) fn attach(&self, pids: &[u32], links: &mut Vec<Link>) -> Result<(), CaptureError> {
        match self {
            Self::InTheSpine => {}
            Self::Functions(functions) => links.extend(functions.attach()?),
            Self::Calls(calls, arrivals) => {
                links.push(arrivals.attach()?);
                links.push(calls.attach()?);
            }
            Self::Servers(servers, arrivals) => {
                links.push(arrivals.attach()?);
                servers.attach(pids, links)?;
            }
        }
        Ok(())
    }
}
