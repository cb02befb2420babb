//! Whole translations.
