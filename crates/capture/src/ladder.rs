//! Which rung of the ladder is stood on: the highest that works here, or the one that is asked for.

use crate::bound::Rung;
use crate::error::CaptureError;
use crate::probes::Probes;

/// What is asked of the ladder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ladder {
    /// This rung and no other.
    pub forced: Option<Rung>,
    /// None of these, as on a kernel that lacks them.
    pub forbidden: Vec<Rung>,
}

/// Where the ladder was stood on.
#[derive(Debug)]
pub struct Footing {
    /// The rung.
    pub rung: Rung,
    /// Its probes, loaded; `None` for the rungs without any.
    pub probes: Option<Probes>,
    /// Why the rungs above it are not used, a sentence each; for the report.
    pub notes: Vec<String>,
}

impl Ladder {
    /// Tries the rungs from the top.
    ///
    /// # Errors
    /// What refuses the rung that is forced.
    pub fn climb(&self) -> Result<Footing, CaptureError> {
        if let Some(rung) = self.forced {
            let probes = Self::step_on(rung)?;
            return Ok(Footing { rung, probes, notes: Vec::new() });
        }
        let mut notes = Vec::new();
        for rung in Rung::ALL {
            if self.forbidden.contains(&rung) {
                notes.push(format!("rung {:?} not used: forbidden", rung.name()));
                continue;
            }
            match Self::step_on(rung) {
                Ok(probes) => return Ok(Footing { rung, probes, notes }),
                // What is missing to all rungs is said once, with the first of them.
                Err(why @ (CaptureError::NoPrivilege { .. } | CaptureError::NoBtf)) => {
                    notes.push(format!("no events of the kernel: {why}"));
                    break;
                }
                Err(why) => notes.push(format!("rung {:?} not used: {why}", rung.name())),
            }
        }
        Ok(Footing { rung: Rung::ClientOnly, probes: None, notes })
    }

    fn step_on(rung: Rung) -> Result<Option<Probes>, CaptureError> {
        match rung {
            Rung::ProcOnly | Rung::ClientOnly => Ok(None),
            _ => Probes::load_rung(rung).map(Some),
        }
    }
}
