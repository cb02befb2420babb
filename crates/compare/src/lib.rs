//! Experiments that hold: interleaving, pairing, verdict.
