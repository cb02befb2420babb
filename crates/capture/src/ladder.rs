//! Which source of the ladder is stood on: the highest that works here, or the one that is asked for.

use crate::boundary_source::BoundarySource;
use crate::error::CaptureError;
use crate::probes::Probes;
use crate::servers;
use crate::target::Target;

/// What is asked of the ladder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ladder {
    /// This source and no other.
    pub forced: Option<BoundarySource>,
    /// None of these, as on a kernel that lacks them.
    pub forbidden: Vec<BoundarySource>,
}

/// Where the ladder was stood on.
#[derive(Debug)]
pub struct Footing {
    /// The source.
    pub source: BoundarySource,
    /// Its probes, loaded; `None` for the sources without any.
    pub probes: Option<Probes>,
    /// Why the sources above it are not used, and what it cannot tell, a sentence each; for the report.
    pub notes: Vec<String>,
    /// Whether it may yet come down to /proc: neither was this source asked for, nor is that one forbidden.
    may_fall: bool,
}

impl Footing {
    /// Comes down once more where the source's probes do not know the server, which is known only now.
    ///
    /// # Errors
    /// [`CaptureError::NoKnownServer`] where the source was asked for, or the one below is forbidden.
    pub fn settle(&mut self, target: &Target) -> Result<(), CaptureError> {
        if self.source != BoundarySource::UserProbes {
            return Ok(());
        }
        let pids: Vec<u32> = target.pids.iter().copied().collect();
        match servers::check(&pids) {
            Err(why) if !self.may_fall => Err(why),
            Err(why) => {
                tracing::info!(rung = self.source.name(), %why, "comes down to /proc");
                self.notes.push(format!("rung {:?} not used: {why}", self.source.name()));
                (self.source, self.probes) = (BoundarySource::ProcOnly, None);
                self.notes.extend(what_is_missing(self.source));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// What a source cannot tell, and what can.
fn what_is_missing(source: BoundarySource) -> Option<String> {
    (source == BoundarySource::ProcOnly).then(|| {
        "from /proc only: no request is followed through the server; run and wait_cpu are its tasks' use of the CPUs \
         over the load's time, divided by the requests, so that they hold for the mean alone, and leave out tasks that \
         lived for less than 100 ms; queues, other waits and the way back stay unattributed. As root, or with CAP_BPF and \
         CAP_PERFMON, on Linux 5.10 or later, requests are followed"
            .to_owned()
    })
}

impl Ladder {
    /// Tries the sources from the top.
    ///
    /// # Errors
    /// What refuses the source that is forced; or that no probe can be understood here ([`CaptureError::PidNamespace`]),
    /// unless all are forbidden.
    pub fn climb(&self) -> Result<Footing, CaptureError> {
        if let Some(source) = self.forced {
            let probes = Self::step_on(source)?;
            return Ok(Footing {
                source,
                probes,
                notes: what_is_missing(source).into_iter().collect(),
                may_fall: false,
            });
        }
        let mut notes = Vec::new();
        let may_fall = !self.forbidden.contains(&BoundarySource::ProcOnly);
        let mut probes_refused = false;
        for source in BoundarySource::ALL {
            if self.forbidden.contains(&source) {
                notes.push(format!("rung {:?} not used: forbidden", source.name()));
                continue;
            }
            if probes_refused && source.has_probes() {
                continue;
            }
            match Self::step_on(source) {
                Ok(probes) => {
                    notes.extend(what_is_missing(source));
                    return Ok(Footing { source, probes, notes, may_fall });
                }
                // What came of it would be wrong without a word, and the remedy is near.
                Err(why @ CaptureError::PidNamespace { .. }) => return Err(why),
                // What is missing to all probes is said once.
                Err(why @ (CaptureError::NoPrivilege { .. } | CaptureError::NoBtf)) => {
                    notes.push(format!("no probes: {why}"));
                    probes_refused = true;
                }
                Err(why) => notes.push(format!("rung {:?} not used: {why}", source.name())),
            }
        }
        Ok(Footing { source: BoundarySource::ClientOnly, probes: None, notes, may_fall: false })
    }

    fn step_on(source: BoundarySource) -> Result<Option<Probes>, CaptureError> {
        match source {
            _ if source.has_probes() => {
                let loaded = Probes::load_source(source);
                match &loaded {
                    Ok(_) => tracing::info!(rung = source.name(), "probes loaded"),
                    Err(error) => tracing::info!(rung = source.name(), %error, "probes refused"),
                }
                loaded.map(Some)
            }
            _ => Ok(None),
        }
    }
}
