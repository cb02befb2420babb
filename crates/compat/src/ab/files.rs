//! ApacheBench's two files: percentages for a spreadsheet (`-e`) and every sample for gnuplot (`-g`).

use super::samples::{Measure, Samples};
use super::times::{csv_percentile, to_ms};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Writes the time within which each percentage of the requests was served.
pub(super) fn write_percentages(file: File, samples: &mut Samples, strict: bool) -> io::Result<()> {
    samples.sort(Measure::Total);
    let mut out = BufWriter::new(file);
    out.write_all(b"Percentage served,Time in ms\n")?;
    for percent in 0..=100 {
        writeln!(out, "{percent},{:.3}", f64::from(csv_percentile(samples, percent, strict)) / 1000.0)?;
    }
    out.flush()
}

/// Writes a line for each sample, sorted by total time.
pub(super) fn write_samples(file: File, samples: &mut Samples, begin: SystemTime) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    out.write_all(b"starttime\tseconds\tctime\tdtime\tttime\twait\n")?;
    let mut known = (u64::MAX, String::new());
    samples.each_by_total(|sample| {
        let at = begin + Duration::from_micros(sample.start_us);
        let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        if known.0 != seconds {
            known = (seconds, local_time(seconds));
        }
        let [connect, processing, waiting, total] = Measure::ALL.map(|measure| to_ms(f64::from(measure.of(sample))));
        writeln!(out, "{}\t{seconds}\t{connect}\t{processing}\t{total}\t{waiting}", known.1)
    })?;
    out.flush()
}

/// A time as `ctime` writes it, with two digits for the day: `Sat Nov 21 18:15:37 2026`.
fn local_time(seconds: u64) -> String {
    let time = libc::time_t::try_from(seconds).unwrap_or(0);
    // SAFETY: an all-zero `tm` is a value of it; both pointers are valid for the call.
    let local = unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const time, &raw mut local);
        local
    };
    let name = |names: &'static [&'static str], index: libc::c_int| {
        usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or("???")
    };
    const DAYS: &[&str] = &["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: &[&str] = &["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    format!(
        "{} {} {:02} {:02}:{:02}:{:02} {}",
        name(DAYS, local.tm_wday),
        name(MONTHS, local.tm_mon),
        local.tm_mday,
        local.tm_hour,
        local.tm_min,
        local.tm_sec,
        1900 + local.tm_year
    )
}
