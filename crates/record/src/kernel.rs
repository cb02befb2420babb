//! The kernel's events of a server, into a run.

use anyhow::bail;
use weir_capture::{EventSource, Footing, Ladder, Recorder, Target};
use weir_terminal::{VERSION, privacy};
use weir_trace::{Limits, Run, Source};

/// Disk space of a recording, MiB, unless the user says.
pub const DISK_MIB: u64 = 4096;

/// The highest rung that works and has probes; an error with the reasons why none above it does, where nothing can be done
/// without probes.
pub(crate) fn with_probes(ladder: &Ladder) -> anyhow::Result<Footing> {
    let footing = ladder.climb()?;
    if footing.probes.is_none() {
        bail!(
            "the rung {:?} follows no request; weir doctor says what is missing\n  {}",
            footing.source.name(),
            footing.notes.join("\n  ")
        );
    }
    Ok(footing)
}

/// Divides the disk space among the streams, in segments small enough that removing one leaves most of a stream.
pub(crate) fn limits(disk_mib: u64) -> Limits {
    let usual = Limits::default();
    let stream_bytes = (disk_mib << 20) / weir_capture::streams() as u64;
    Limits { stream_bytes, segment_bytes: usual.segment_bytes.min(stream_bytes / 4), ..usual }
}

/// Begins to record into a run: by the probes of the rung, which are then its own, or by samples where it has none.
pub(crate) fn start(
    run: &Run,
    footing: &mut Footing,
    sources: Vec<Box<dyn EventSource>>,
    target: &Target,
    disk_mib: u64,
) -> anyhow::Result<Recorder> {
    run.begin(Source::Kernel, VERSION, privacy::command_line(), Some(footing.source.name()), None)?;
    Ok(match footing.probes.take() {
        Some(probes) => Recorder::start_with(probes, sources, target, run, limits(disk_mib))?,
        None => Recorder::sample(target, run, limits(disk_mib))?,
    })
}
