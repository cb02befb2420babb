//! Samples as bytes, the layout that `python/weir/samples.py` reads.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weir_load::samples::Sample;

/// Bytes of a packed sample.
const BYTES: usize = 64;

/// One sample: five times in microseconds, then the counts.
///
/// Each number is aligned to its own size, so that a column is a strided view.
fn packed(sample: &Sample) -> [u8; BYTES] {
    let us = |ns: u64| ns as f64 / 1e3;
    let first_byte_us = if sample.first_byte_ns == 0 { f64::NAN } else { us(sample.first_byte_ns) };
    let times = [us(sample.start_ns), us(sample.connect_ns), first_byte_us, us(sample.total_ns), us(sample.latency_ns)];
    let flags = u8::from(sample.opened) | u8::from(sample.retried) << 1;
    let mut bytes = [0; BYTES];
    for (place, time) in bytes.chunks_exact_mut(8).zip(times) {
        place.copy_from_slice(&time.to_ne_bytes());
    }
    bytes[40..48].copy_from_slice(&sample.bytes.to_ne_bytes());
    bytes[48..56].copy_from_slice(&sample.connection.to_ne_bytes());
    bytes[56..60].copy_from_slice(&sample.name.to_ne_bytes());
    bytes[60..62].copy_from_slice(&sample.status.to_ne_bytes());
    bytes[62] = sample.outcome as u8;
    bytes[63] = flags;
    bytes
}

/// Samples one behind the other.
pub(crate) fn as_bytes<'py>(py: Python<'py>, samples: &[Sample]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, samples.len() * BYTES, |bytes| {
        for (place, sample) in bytes.chunks_exact_mut(BYTES).zip(samples) {
            place.copy_from_slice(&packed(sample));
        }
        Ok(())
    })
}
