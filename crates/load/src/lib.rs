//! Drives a web server and says what its user felt.
