//! Segments, the schema registry, dictionaries and run directories.
