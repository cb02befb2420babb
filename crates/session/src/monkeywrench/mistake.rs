//! What can be wrong with a click or a setting.

use crate::pattern::PatternError;

/// Why a click or a setting cannot be honoured.
#[derive(Debug, thiserror::Error)]
pub(super) enum Mistake {
    #[error("send_mail: weir sends no mail; leave it out and use the exit status")]
    SendMail,
    #[error("{0} is not a setting")]
    NoSetting(String),
    #[error("{0} is not a part of a click")]
    NoPart(String),
    #[error("a flag is 0 or 1")]
    NoFlag,
    #[error("{0} is a text")]
    NoText(String),
    #[error("{0} is a list: [ … ]")]
    NoList(String),
    #[error("method is a word such as POST, not `{0}`")]
    Method(String),
    #[error("auth is [ 'user', 'password' ]")]
    Auth,
    #[error("delay is a number of seconds up to 86400")]
    Delay,
    #[error("status_code is a number from 100 to 599")]
    StatusCode,
    #[error("the click has no url")]
    NoUrl,
    #[error("url: {0}: only http, https and file are spoken")]
    Scheme(String),
    #[error("url: {address}: {source}")]
    Url { address: String, source: url::ParseError },
    #[error("params has a name without a value")]
    NoValue,
    #[error("params is {{ name => 'value' }}")]
    Params,
    #[error("{key}: {source}")]
    Pattern { key: String, source: PatternError },
    #[error("{0}: a pattern is {{\"regex\": …}}")]
    NoRegex(String),
    #[error("{0} holds texts and patterns")]
    NoPattern(String),
    #[error("{key}: the flag {flag} of qr/{pattern}/ is not supported")]
    RegexFlag { key: String, flag: char, pattern: String },
    #[error("a cookie's port is a list such as 80,8080, not `{0}`")]
    CookiePort(String),
    #[error("a cookie is a list: [ 0, 'name', 'value', '/', 'domain' ]")]
    Cookie,
    #[error("a cookie has no name")]
    CookieName,
}
