//! Numbers of a state are kept as their bits: a decimal form would be rounded by some readers, and what is replayed
//! from it would differ from what was live.

use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(value.to_bits())
}

pub(crate) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<f64, D::Error> {
    u64::deserialize(deserializer).map(f64::from_bits)
}

/// The same of a list.
pub(crate) mod list {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|value| value.to_bits()))
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<u64>::deserialize(deserializer)?.into_iter().map(f64::from_bits).collect())
    }
}
