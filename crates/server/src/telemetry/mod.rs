//! What the server tells of itself: access log, history of requests, activity, admin page, business transactions (ARM),
//! watched requests.

pub(crate) mod access_log;
pub(crate) mod activity;
pub(crate) mod admin;
pub(crate) mod arm_requests;
pub(crate) mod arm_rules;
pub(crate) mod notices;
pub(crate) mod recent;
pub(crate) mod request_filter;
pub(crate) mod response_log;
pub(crate) mod watching;
