//! Where request boundaries come from: the spine's own tracepoints, or the programs of a lower source beside it.

use crate::arrivals::Arrivals;
use crate::boundary_source::BoundarySource;
use crate::calls::Calls;
use crate::error::CaptureError;
use crate::functions::Functions;
use crate::servers::Servers;
use crate::spine::Spine;
use libbpf_rs::Link;

/// The loaded programs of a source.
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
    pub(crate) fn load(source: BoundarySource, spine: &Spine) -> Result<Self, CaptureError> {
        match source {
            BoundarySource::SocketTracepoints => Ok(Self::InTheSpine),
            BoundarySource::Functions => Functions::load(spine).map(Self::Functions),
            BoundarySource::SystemCalls => Ok(Self::Calls(Calls::load(spine)?, Arrivals::load(spine)?)),
            BoundarySource::UserProbes => Ok(Self::Servers(Servers::load(spine)?, Arrivals::load(spine)?)),
            BoundarySource::ProcOnly | BoundarySource::ClientOnly => {
                Err(CaptureError::NoProbes { name: source.name() })
            }
        }
    }

    pub(crate) fn source(&self) -> BoundarySource {
        match self {
            Self::InTheSpine => BoundarySource::SocketTracepoints,
            Self::Functions(_) => BoundarySource::Functions,
            Self::Calls(..) => BoundarySource::SystemCalls,
            Self::Servers(..) => BoundarySource::UserProbes,
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
