//! Views of measures: terminal, HTML and JSON.
