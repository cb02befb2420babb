//! The fixed event record, its kinds, and the bounded ring that carries them.
