//! Which form a file has.

use std::fmt;

/// The form of a description or a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// OpenAPI 3.0, 3.1 and Swagger 2.0, as YAML or JSON.
    OpenApi,
    /// A collection of Postman, 2.0 or 2.1.
    Postman,
    /// Command lines of curl.
    Curl,
    /// A test plan of JMeter.
    Jmeter,
    /// An HTTP Archive 1.2.
    Har,
}

/// How much of a file is looked at to tell its form, in bytes.
const LOOKED_AT: usize = 1 << 20;

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::OpenApi, Self::Postman, Self::Curl, Self::Jmeter, Self::Har];

    /// Its name on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenApi => "openapi",
            Self::Postman => "postman",
            Self::Curl => "curl",
            Self::Jmeter => "jmeter",
            Self::Har => "har",
        }
    }

    /// The form of a file by its content; `None` where it is none of these.
    #[must_use]
    pub fn recognise(text: &str) -> Option<Self> {
        let mut end = text.len().min(LOOKED_AT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = text[..end].trim_start_matches('\u{feff}').trim_start();
        if text.starts_with('<') {
            return text.contains("<jmeterTestPlan").then_some(Self::Jmeter);
        }
        if text.starts_with('{') {
            let has = |key: &str| text.contains(&format!("\"{key}\""));
            return if has("openapi") || has("swagger") {
                Some(Self::OpenApi)
            } else if has("log") && has("entries") {
                Some(Self::Har)
            } else if has("info") && (has("item") || has("_postman_id")) {
                Some(Self::Postman)
            } else {
                None
            };
        }
        let is_open_api = |line: &str| {
            let line = line.trim_start_matches(['"', '\'']);
            ["openapi", "swagger"].iter().any(|word| {
                let rest = line.strip_prefix(word).map(|rest| rest.trim_start_matches(['"', '\'']).trim_start());
                rest.is_some_and(|rest| rest.starts_with(':'))
            })
        };
        if text.lines().any(is_open_api) {
            return Some(Self::OpenApi);
        }
        let is_curl = |line: &str| {
            let line = line.trim_start().trim_start_matches("$ ").trim_start();
            line.starts_with("curl ") || line.starts_with("curl\t") || line.starts_with("curl.exe ")
        };
        text.lines().any(is_curl).then_some(Self::Curl)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenApi => "OpenAPI",
            Self::Postman => "a collection of Postman",
            Self::Curl => "command lines of curl",
            Self::Jmeter => "a plan of JMeter",
            Self::Har => "an HTTP Archive",
        })
    }
}
