//! Records kernel events of a server and its requests.
