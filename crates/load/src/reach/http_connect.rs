//! A tunnel through an HTTP proxy: the CONNECT method (RFC 9110 9.3.6).

use crate::reach::answer::{Answer, Credentials, Destination, Step};
use crate::reach::refusal::Refusal;
use crate::requests::base64;
use weir_client::{EndOfHead, Unlike, judge, status_line};

/// The longest head of an answer that is read, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The header line by which a proxy is told who asks.
pub(crate) fn authorization(credentials: &Credentials) -> String {
    let both = format!("{}:{}", credentials.user, credentials.password);
    format!("Proxy-Authorization: Basic {}\r\n", base64::encode(both.as_bytes()))
}

pub(crate) fn request(to: &Destination, credentials: Option<&Credentials>) -> Vec<u8> {
    let authority = to.authority();
    let authorization = credentials.map(authorization).unwrap_or_default();
    let agent = concat!("User-Agent: weir/", env!("CARGO_PKG_VERSION"), "\r\n");
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{agent}{authorization}\r\n").into_bytes()
}

pub(crate) fn answer(input: &[u8]) -> Result<Answer, Refusal> {
    let not_http = |unlike: Unlike| Refusal(format!("the proxy's answer is not HTTP: {unlike}"));
    let Some(taken) = EndOfHead::default().find(input) else {
        judge(input, false).map_err(not_http)?;
        return match input.len() < HEAD_BYTES_MAX {
            true => Ok(Answer::Unfinished),
            false => Err(Refusal::new("the proxy's answer has no end")),
        };
    };
    let line = status_line(&input[..taken]).map_err(not_http)?;
    match line.status {
        // RFC 9110 15.2: interim answers may come before the one that counts.
        100 | 102..=199 => Ok(Answer::Next { taken, step: Step::HttpConnect, login_passed_over: false }),
        200..=299 => Ok(Answer::Next { taken, step: Step::Through, login_passed_over: false }),
        code => {
            let reason: String = String::from_utf8_lossy(line.reason).chars().filter(|c| !c.is_control()).collect();
            Err(Refusal(format!("the proxy answered {code} {reason}").trim_end().to_owned()))
        }
    }
}
