//! A fast static web server.
