//! The load generator as a module of Python: `weir._native`, which the package `weir` in `python/` makes convenient.
//!
//! Nothing here measures or counts: what Python sees are weir-load's options, samples and report.
//! Python's lock is not held while a run goes on, which has threads of its own.

mod options;
mod packed;
mod report;
mod running;
mod times;

use pyo3::prelude::*;

/// The load generator, as the package `weir` uses it.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::running::{LoadError, Running, start};
    #[pymodule_export]
    use crate::times::Times;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let outcomes: Vec<_> = weir_load::Outcome::ALL.into_iter().map(weir_load::Outcome::name).collect();
        module.add("OUTCOMES", outcomes)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
