//! Real servers with a planted fault, and launchers for the web servers that the tests load.
