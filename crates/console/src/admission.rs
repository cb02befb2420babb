//! Who may ask a console within a server's admin address.
//!
//! That address has checked the name by which it is called, and the token.

/// The path of such a console.
const PATH: &str = "/console/";
/// Calls begin so; all else are files.
const CALLS: &str = "api/";

/// What a request says of where it comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'r> {
    /// The request's target (RFC 9112, 3.2).
    pub(crate) target: &'r str,
    /// Its field Host.
    pub(crate) host: Option<&'r str>,
    /// Its field Origin (RFC 6454, 7).
    pub(crate) origin: Option<&'r str>,
    /// Its field Sec-Fetch-Site (W3C Fetch Metadata, 2.4).
    pub(crate) site: Option<&'r str>,
    /// Its field Sec-Fetch-Mode (2.2).
    pub(crate) mode: Option<&'r str>,
}

/// Why a request gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It is for another path.
    NotOurs,
    /// A page of another origin asks.
    Origin,
    /// A call without the token.
    Token,
}

/// The rest of the target, if the request gets an answer.
///
/// Files hold no figures, so that a link to the page may be followed from other pages, and without a token (`may_ask`).
pub(crate) fn admitted<'r>(asked: &Asked<'r>, may_ask: bool) -> Result<&'r str, Denied> {
    let rest = asked.target.strip_prefix(PATH).ok_or(Denied::NotOurs)?;
    let is_file = !rest.starts_with(CALLS);
    let is_followed = is_file && asked.mode == Some("navigate");
    if !matches!(asked.site, None | Some("same-origin" | "none")) && !is_followed {
        return Err(Denied::Origin);
    }
    if let Some(origin) = asked.origin {
        // TLS may have been ended before us: by which scheme the page came is not known here.
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).unwrap_or_default();
        let is_own = |host: &str| !host.is_empty() && host.eq_ignore_ascii_case(authority);
        if !asked.host.is_some_and(is_own) {
            return Err(Denied::Origin);
        }
    }
    if is_file || may_ask { Ok(rest) } else { Err(Denied::Token) }
}
