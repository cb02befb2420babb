//! What the viewer's server answers: the page, what is known of the whole run, and tiles.

use anyhow::Context;
use std::fmt::Write;
use std::io::Read;
use std::sync::Arc;
use weir_endpoint::Answer;
use weir_measure::part::Part;
use weir_tiles::{MOST_CHOSEN, OpenError, RunTiles, TileError};

/// What the page may do: load its own scripts, styles and data, nothing else from anywhere.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                                 img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [(&str, &str); 6] = [
    ("page.js", include_str!("page.js")),
    ("draw.js", include_str!("draw.js")),
    ("locks.js", include_str!("locks.js")),
    ("objects.js", include_str!("objects.js")),
    ("tiles.js", include_str!("tiles.js")),
    ("panel.js", include_str!("panel.js")),
];

/// Where the tiles come from.
pub(super) trait Source {
    fn whole_json(&self) -> &[u8];
    fn tile(&mut self, level: i32, index: u64) -> Result<Arc<[u8]>, TileError>;
    fn objects_json(&mut self) -> Result<Vec<u8>, OpenError>;
    fn object_tile(&mut self, place: (i32, u64), lines: &[u32]) -> Result<Vec<u8>, ObjectTileError>;
}

/// Why there is no tile of objects.
#[derive(Debug, thiserror::Error)]
pub(super) enum ObjectTileError {
    /// The run cannot be read for them.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no such tile.
    #[error(transparent)]
    Tile(#[from] TileError),
}

impl Source for RunTiles {
    fn whole_json(&self) -> &[u8] {
        Self::whole_json(self)
    }

    fn tile(&mut self, level: i32, index: u64) -> Result<Arc<[u8]>, TileError> {
        Self::tile(self, level, index)
    }

    fn objects_json(&mut self) -> Result<Vec<u8>, OpenError> {
        Ok(self.objects()?.choice_json())
    }

    fn object_tile(&mut self, (level, index): (i32, u64), lines: &[u32]) -> Result<Vec<u8>, ObjectTileError> {
        Ok(self.objects()?.tile(level, index, lines)?)
    }
}

/// The site of one run.
pub(super) struct Site<S> {
    tiles: S,
    /// `/WORD/`: who does not know the word gets nothing, for a run holds what is its owner's alone.
    path: String,
    /// The hosts by which a browser of this host may call us. Any other name may be one that an attacker's name server
    /// points at us (DNS rebinding).
    hosts: [String; 3],
    page: String,
}

impl<S: Source> Site<S> {
    pub(super) fn new(tiles: S, port: u16, run: &str, names: &[String]) -> anyhow::Result<Self> {
        let mut random = [0; 12];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut random))
            .context("/dev/urandom")?;
        let word = random.iter().fold(String::new(), |mut word, byte| {
            // Writing to a string cannot fail.
            let _infallible = write!(word, "{byte:02x}");
            word
        });
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
        // In one pass: what a run or a host is called names no other place.
        let names = escaped(&serde_json::to_string(names)?);
        let told = [("{RUN}", escaped(run)), ("{HOSTS}", names), ("{VERSION}", weir_terminal::VERSION.to_owned())];
        let page = filled(PAGE, &told);
        Ok(Self { tiles, path: format!("/{word}/"), hosts, page })
    }

    /// The path of the page.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Answers a request by its method, target and Host header.
    pub(super) fn answer(&mut self, method: &str, target: &str, host: Option<&str>) -> Answer {
        if !host.is_some_and(|host| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))) {
            return Answer::line(403, "weir view answers to 127.0.0.1 and localhost only, with its port");
        }
        if !["GET", "HEAD"].contains(&method) {
            return Answer::line(405, "only GET and HEAD");
        }
        let path = target.split('?').next().unwrap_or(target);
        let Some(name) = path.strip_prefix(self.path.as_str()) else {
            return Answer::line(404, "not here: use the whole address that `weir view` printed, with its random word");
        };
        if let Some((_, script)) = SCRIPTS.iter().find(|(script, _)| *script == name) {
            return Answer::whole(200, "text/javascript; charset=utf-8", *script);
        }
        match name {
            "" => Answer::whole(200, "text/html; charset=utf-8", self.page.as_str()),
            "page.css" => Answer::whole(200, "text/css; charset=utf-8", colours() + STYLE),
            "whole.json" => Answer::whole(200, "application/json", self.tiles.whole_json()),
            "objects.json" => match self.tiles.objects_json() {
                Ok(json) => Answer::whole(200, "application/json", json),
                Err(error) => Answer::line(500, &error.to_string()),
            },
            name if name.starts_with("objects/") => match object_tile_of(name) {
                Some((place, lines)) => self.object_tile(place, &lines),
                None => Answer::line(404, "no such page"),
            },
            name => match tile_of(name) {
                Some((level, index)) => self.tile(level, index),
                None => Answer::line(404, "no such page"),
            },
        }
    }

    fn object_tile(&mut self, place: (i32, u64), lines: &[u32]) -> Answer {
        match self.tiles.object_tile(place, lines) {
            Ok(json) => Answer::whole(200, "application/json", json),
            Err(error @ ObjectTileError::Tile(TileError::Missing { .. })) => Answer::line(404, &error.to_string()),
            Err(error) => Answer::line(500, &error.to_string()),
        }
    }

    fn tile(&mut self, level: i32, index: u64) -> Answer {
        match self.tiles.tile(level, index) {
            Ok(json) => Answer::whole(200, "application/json", &*json),
            Err(error @ TileError::Missing { .. }) => Answer::line(404, &error.to_string()),
            Err(error) => Answer::line(500, &error.to_string()),
        }
    }
}

/// Level, number and lines of `objects/LEVEL/NUMBER/LINE.LINE...`.
fn object_tile_of(name: &str) -> Option<((i32, u64), Vec<u32>)> {
    let (level, rest) = name.strip_prefix("objects/")?.split_once('/')?;
    let (index, lines) = rest.split_once('/')?;
    let lines = lines.split('.').filter(|line| !line.is_empty()).take(MOST_CHOSEN + 1);
    let lines = lines.map(|line| line.parse().ok()).collect::<Option<Vec<u32>>>()?;
    let place = (level.parse().ok()?, index.parse().ok()?);
    (lines.len() <= MOST_CHOSEN).then_some((place, lines))
}

/// Level and number of `tile/LEVEL/NUMBER`.
fn tile_of(name: &str) -> Option<(i32, u64)> {
    let (level, index) = name.strip_prefix("tile/")?.split_once('/')?;
    Some((level.parse().ok()?, index.parse().ok()?))
}

/// The colours of the parts, the same as in the report.
fn colours() -> String {
    let lines: String =
        Part::ALL.iter().map(|part| format!("--{}: {};\n", part.name(), weir_report::colour(*part))).collect();
    format!(":root {{\n{lines}}}\n")
}

/// A page with texts in the places that are named.
fn filled(page: &str, told: &[(&str, String)]) -> String {
    let mut made = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        made.push_str(before);
        let place = told.iter().find(|(name, _)| from.starts_with(name));
        let (text, length) = place.map_or(("{", 1), |(name, text)| (text.as_str(), name.len()));
        made.push_str(text);
        rest = &from[length..];
    }
    made + rest
}

/// Text that stays text in HTML.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut markup, letter| {
        match letter {
            '&' => markup.push_str("&amp;"),
            '<' => markup.push_str("&lt;"),
            '>' => markup.push_str("&gt;"),
            '"' => markup.push_str("&quot;"),
            '\'' => markup.push_str("&#39;"),
            letter if letter.is_control() => markup.push('\u{fffd}'),
            letter => markup.push(letter),
        }
        markup
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_endpoint::Content;

    /// Tiles that are numbers.
    struct Numbers;

    impl Source for Numbers {
        fn whole_json(&self) -> &[u8] {
            b"{}"
        }

        fn tile(&mut self, level: i32, index: u64) -> Result<Arc<[u8]>, TileError> {
            if index > 9 {
                Err(TileError::Missing { level, index })
            } else {
                Ok(format!("[{level},{index}]").into_bytes().into())
            }
        }

        fn objects_json(&mut self) -> Result<Vec<u8>, OpenError> {
            Ok(b"{}".to_vec())
        }

        fn object_tile(&mut self, (level, index): (i32, u64), lines: &[u32]) -> Result<Vec<u8>, ObjectTileError> {
            if index > 9 {
                return Err(TileError::Missing { level, index }.into());
            }
            Ok(format!("[{level},{index},{lines:?}]").into_bytes())
        }
    }

    fn site() -> Site<Numbers> {
        Site::new(Numbers, 8090, "<b>run</b>{HOSTS}", &["a\"b".to_owned()]).expect("random bytes are there")
    }

    #[test]
    fn other_hosts_and_other_words_get_nothing() {
        let mut site = site();
        let page = site.path().to_owned();
        for host in
            [None, Some("evil.example"), Some("evil.example:8090"), Some("127.0.0.1"), Some("127.0.0.1:80"), Some("")]
        {
            assert_eq!(site.answer("GET", &page, host).status, 403, "{host:?}");
        }
        for host in ["127.0.0.1:8090", "localhost:8090", "LOCALHOST:8090", "[::1]:8090"] {
            assert_eq!(site.answer("GET", &page, Some(host)).status, 200, "{host:?}");
        }
        let own = Some("127.0.0.1:8090");
        for target in ["/", "/whole.json", "/0123456789abcdef/", &page[..page.len() - 1]] {
            assert_eq!(site.answer("GET", target, own).status, 404, "{target}");
        }
        assert_eq!(site.answer("POST", &page, own).status, 405);
    }

    #[test]
    fn words_differ() {
        assert_ne!(site().path(), site().path());
        assert_eq!(site().path().len(), 26);
    }

    fn body(answer: Answer) -> Vec<u8> {
        match answer.content {
            Content::Whole(bytes) => bytes,
            Content::Stream { .. } => panic!("pages are whole"),
        }
    }

    #[test]
    fn pages_and_tiles_are_found() {
        let mut site = site();
        let path = site.path().to_owned();
        let mut get = |name: &str| site.answer("GET", &format!("{path}{name}"), Some("localhost:8090"));
        for (name, _) in SCRIPTS {
            assert_eq!(get(name).status, 200, "{name}");
        }
        assert_eq!(body(get("tile/-2/7")), b"[-2,7]");
        assert_eq!(get("tile/0/10").status, 404);
        assert_eq!(body(get("objects/-1/7/3.12")), b"[-1,7,[3, 12]]");
        assert_eq!(body(get("objects/-1/7/")), b"[-1,7,[]]");
        assert_eq!(get("objects.json").status, 200);
        let too_many = format!("objects/0/1/{}", vec!["1"; MOST_CHOSEN + 1].join("."));
        for name in ["objects/0/10/3", "objects/0/1", "objects/0/1/x", "objects/0/1/3.-4", &too_many] {
            assert_eq!(get(name).status, 404, "{name}");
        }
        for name in ["tile/0", "tile/x/1", "tile/0/-1", "tile/0/1/2", "tile/99999999999/0", "../whole.json", "page.rs"]
        {
            assert_eq!(get(name).status, 404, "{name}");
        }
        let page = String::from_utf8(body(get(""))).expect("text");
        assert!(page.contains("&lt;b&gt;run") && !page.contains("<b>run"));
        assert!(page.contains("data-hosts=\"[&quot;a\\&quot;b&quot;]\"") && page.matches("{HOSTS}").count() == 2);
        let style = String::from_utf8(body(get("page.css"))).expect("text");
        assert!(Part::ALL.iter().all(|part| style.contains(&format!("--{}: #", part.name()))));
    }

    #[test]
    fn the_page_names_only_what_is_there() {
        let mut site = site();
        let path = site.path().to_owned();
        for quoted in PAGE.split('"').skip(1).step_by(2).filter(|name| name.ends_with(".js") || name.ends_with(".css"))
        {
            assert_eq!(site.answer("GET", &format!("{path}{quoted}"), Some("localhost:8090")).status, 200, "{quoted}");
        }
    }
}
