//! Merges segments on one clock and joins their events into request spans.
