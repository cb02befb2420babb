//! Pages with includes, taken apart.

pub(crate) mod template;
