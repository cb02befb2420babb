//! Which object belongs on which nodes, as a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use weir_plan::{Log, Placement};

/// Writes a line for each object that is asked for: path, bytes, requests, nodes from 1, between tabs.
pub(super) fn write(file: &Path, log: &Log, placement: &Placement) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    writeln!(out, "path\tbytes\trequests\tnodes")?;
    // The first stands for what was not found, which no node keeps.
    for (object, mask) in
        log.objects().iter().zip(&placement.nodes_of).skip(1).filter(|(object, _)| object.requests > 0)
    {
        let nodes: Vec<String> =
            (0..64).filter(|node| mask >> node & 1 == 1).map(|node| (node + 1).to_string()).collect();
        // A tab within a path would look like the end of it.
        let name = object.name.replace(|letter: char| letter.is_control(), "?");
        writeln!(out, "{name}\t{}\t{}\t{}", object.bytes, object.requests, nodes.join(","))?;
    }
    out.flush()
}
