//! A part of the active director's table, as the other one is told.

use crate::fields::{FieldError, Reader};
use crate::name::NodeNumber;
use weir_keeper::Flow;

/// Flows in one message.
pub const ENTRIES_MAX: usize = 4_096;
/// Nodes in one message.
const NODES_MAX: usize = 1_024;

/// A part of the active director's table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    /// The epoch of the active director.
    pub epoch: u64,
    /// The whole table begins with this part.
    pub is_begin: bool,
    /// The whole table ends with this part: what was not named in it is not in the table.
    pub is_end: bool,
    /// Flows, and where they go.
    pub here: Vec<(Flow, NodeNumber)>,
    /// Flows that are over, or go where their hash says.
    pub gone: Vec<Flow>,
    /// All nodes that want no new connections.
    pub draining: Vec<NodeNumber>,
}

impl Entries {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.epoch.to_be_bytes());
        out.extend([u8::from(self.is_begin), u8::from(self.is_end)]);
        // Each is bounded where it is made, and refused by the reader otherwise.
        out.extend((self.here.len() as u32).to_be_bytes());
        for (flow, node) in &self.here {
            flow.encode(out);
            out.extend(node.to_be_bytes());
        }
        out.extend((self.gone.len() as u32).to_be_bytes());
        self.gone.iter().for_each(|flow| flow.encode(out));
        out.extend((self.draining.len() as u32).to_be_bytes());
        self.draining.iter().for_each(|node| out.extend(node.to_be_bytes()));
    }

    pub(crate) fn take(reader: &mut Reader<'_>) -> Result<Self, FieldError> {
        let (epoch, is_begin, is_end) = (reader.u64()?, reader.flag("begin")?, reader.flag("end")?);
        let here = (0..count(reader, "entries", ENTRIES_MAX)?).map(|_| Ok((reader.flow()?, reader.u16()?)));
        let here = here.collect::<Result<_, FieldError>>()?;
        let gone = (0..count(reader, "entries", ENTRIES_MAX)?).map(|_| reader.flow()).collect::<Result<_, _>>()?;
        let draining = (0..count(reader, "nodes", NODES_MAX)?).map(|_| reader.u16()).collect::<Result<_, _>>()?;
        Ok(Self { epoch, is_begin, is_end, here, gone, draining })
    }
}

fn count(reader: &mut Reader<'_>, what: &'static str, max: usize) -> Result<usize, FieldError> {
    let bytes = reader.u32()? as usize;
    if bytes > max { Err(FieldError::Bound { what, bytes, max }) } else { Ok(bytes) }
}
