//! What FastCGI, SCGI and uwsgi have in common: the variables of a request and the response of a program (RFC 3875).

pub(crate) mod fields;
pub(crate) mod response;
pub(crate) mod script;
pub(crate) mod settings;
pub(crate) mod variables;
