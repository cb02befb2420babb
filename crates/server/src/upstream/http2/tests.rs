//! A connection of HTTP/2 against a model of an upstream, and against any bytes.
