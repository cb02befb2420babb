//! Formats of sound, as far as a swap of codecs needs them.

pub(crate) mod audio;
