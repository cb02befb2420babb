//! What servers told of themselves while they were recorded: the decisions of rules, say.

use rustc_hash::FxHashMap;
use weir_wire::probe::{ProbePoint, REMARK};
use weir_wire::{Kind, Record};

/// Remarks that are kept; of more only their number is.
const MOST_REMARKS: usize = 4096;
/// CPUs on which a remark is awaited.
const MOST_LANES: usize = 8192;

/// Something that a server told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// When.
    pub at_ns: u64,
    /// What, such as "decision".
    pub sort: String,
    /// In its own words.
    pub text: String,
}

/// Gathers them from the records of a run.
#[derive(Debug)]
pub struct Remarks {
    most: usize,
    /// By lane: the probe that was hit, and when, whose text is still to come.
    awaited: FxHashMap<u32, (u64, String)>,
    /// In the order of their times.
    pub remarks: Vec<Remark>,
    /// Those that were too many.
    pub left_out: u64,
}

impl Default for Remarks {
    fn default() -> Self {
        Self::with_room(MOST_REMARKS)
    }
}

impl Remarks {
    /// With room for so many.
    #[must_use]
    pub fn with_room(most: usize) -> Self {
        Self { most, awaited: FxHashMap::default(), remarks: Vec::new(), left_out: 0 }
    }

    /// Takes a record; `name` is the text that it names by its dictionary.
    pub fn push(&mut self, record: &Record, name: Option<&str>) {
        if record.kind == Kind::ProbeHit as u16 {
            let point = name.filter(|name| name.ends_with("remark")).and_then(ProbePoint::read);
            let Some(point) = point.filter(|point| point.roles & REMARK != 0) else { return };
            if self.awaited.len() < MOST_LANES {
                self.awaited.insert(record.lane, (record.time_ns, point.name));
            }
        } else if record.kind == Kind::ProbeText as u16
            && let Some((at_ns, sort)) = self.awaited.remove(&record.lane)
            && at_ns == record.time_ns
        {
            if self.remarks.len() < self.most {
                self.remarks.push(Remark { at_ns, sort, text: name.unwrap_or_default().to_owned() });
            } else {
                self.left_out += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_its_probe_and_the_text_of_the_same_time() {
        let mut remarks = Remarks::default();
        let mut told = |kind: Kind, lane, time_ns, name: &str| {
            remarks.push(&Record { kind: kind as u16, lane, time_ns, ..Record::default() }, Some(name));
        };
        told(Kind::ProbeHit, 1, 10, "weir\tdecision\tremark");
        told(Kind::ProbeHit, 2, 11, "nginx\tread\tphase");
        told(Kind::ProbeText, 2, 11, "of no one");
        told(Kind::ProbeText, 1, 10, "flash fired");
        told(Kind::ProbeHit, 1, 20, "weir\tdecision\tremark");
        told(Kind::ProbeText, 1, 21, "of another one, whose hit was lost");
        (0..2 * MOST_REMARKS as u64).for_each(|number| {
            told(Kind::ProbeHit, 3, 100 + number, "weir\tdecision\tremark");
            told(Kind::ProbeText, 3, 100 + number, "again");
        });
        let first = Remark { at_ns: 10, sort: "decision".to_owned(), text: "flash fired".to_owned() };
        assert_eq!(remarks.remarks[0], first);
        assert_eq!((remarks.remarks.len(), remarks.left_out), (MOST_REMARKS, MOST_REMARKS as u64 + 1));
        assert!(remarks.remarks[1..].iter().all(|remark| remark.text == "again"));
    }
}
