//! wrk's command line.

use super::units::{count_of, seconds_of};

/// The most connections, and the most threads.
const CONNECTIONS_MAX: u64 = 1_000_000;
const THREADS_MAX: u64 = 256;
/// The longest time of an option, in seconds: a day.
const SECONDS_MAX: u64 = 86_400;
/// How long a function of a script may take if the command line does not say, in seconds.
const SCRIPT_LIMIT_S: u64 = 10;

/// Long options with the letter that means the same; those of ours have a capital letter that wrk has not.
const LONG: [(&str, char); 10] = [
    ("connections", 'c'),
    ("duration", 'd'),
    ("threads", 't'),
    ("script", 's'),
    ("header", 'H'),
    ("latency", 'L'),
    ("timeout", 'T'),
    ("help", 'h'),
    ("version", 'v'),
    ("script-limit", 'S'),
];

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// Over all threads: each has an equal share, without the rest.
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    pub(crate) duration_s: u64,
    pub(crate) script: Option<String>,
    /// Names and values.
    pub(crate) headers: Vec<(String, String)>,
    /// Whether the report has percentiles.
    pub(crate) latency: bool,
    pub(crate) timeout_s: u64,
    /// How long each function of a script may take.
    pub(crate) script_limit_s: u64,
    pub(crate) url: String,
    /// What the script's `init` is given behind the URL.
    pub(crate) rest: Vec<String>,
}

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Run(Arguments),
    Help,
    Version,
}

/// What is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mistake {
    /// An option that wrk has not.
    #[error("{0}: there is no such option")]
    Unknown(String),
    /// The begin of several options.
    #[error("{0}: it may mean several options; write more of it")]
    Ambiguous(String),
    /// A value where none belongs.
    #[error("{0}: the option takes no value; leave it out")]
    NoValue(String),
    /// An option without its value.
    #[error("{0}: a value belongs behind it")]
    Incomplete(String),
    /// A value that is no count.
    #[error("{0}: not a count from 1 to {1}, such as 400 or 2k")]
    Count(String, u64),
    /// A value that is no time.
    #[error("{0}: not a time from 1s to a day, such as 30, 30s, 2m or 1h")]
    Time(String),
    /// A header that is none.
    #[error("-H {0}: not a header; write 'Name: value'")]
    Header(String),
    /// No URL.
    #[error("the URL is missing")]
    NoUrl,
    /// Threads without a connection.
    #[error("number of connections must be >= threads")]
    TooManyThreads,
}

/// Reads a command line as the original does: options may stand behind the URL, and may be shortened while unique.
pub(crate) fn parse(words: &[String]) -> Result<Asked, Mistake> {
    let mut asked = Arguments {
        connections: 10,
        threads: 2,
        duration_s: 10,
        script: None,
        headers: Vec::new(),
        latency: false,
        timeout_s: 2,
        script_limit_s: SCRIPT_LIMIT_S,
        url: String::new(),
        rest: Vec::new(),
    };
    let mut operands: Vec<String> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            operands.extend(words.by_ref().cloned());
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let letter = long_option(name)?;
            let value = match (takes_value(letter), value) {
                (true, None) => words.next().map(String::as_str),
                (false, Some(_)) => return Err(Mistake::NoValue(format!("--{name}"))),
                (_, value) => value,
            };
            if let Some(other) = take(&mut asked, letter, &format!("--{name}"), value)? {
                return Ok(other);
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            if let Some(other) = short_options(&mut asked, letters, &mut words)? {
                return Ok(other);
            }
        } else {
            operands.push(word.clone());
        }
    }
    let mut operands = operands.into_iter();
    asked.url = operands.next().ok_or(Mistake::NoUrl)?;
    asked.rest = operands.collect();
    if asked.connections < asked.threads {
        return Err(Mistake::TooManyThreads);
    }
    Ok(Asked::Run(asked))
}

/// The options of one word, such as `-t2` or `-Lc`.
fn short_options<'a>(
    asked: &mut Arguments,
    letters: &'a str,
    words: &mut impl Iterator<Item = &'a String>,
) -> Result<Option<Asked>, Mistake> {
    let mut rest = letters;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let name = format!("-{letter}");
        let is_short = LONG.iter().any(|(_, known)| *known == letter) && letter != 'S';
        if !is_short {
            return Err(Mistake::Unknown(name));
        }
        let value = match (takes_value(letter), rest) {
            (false, _) => None,
            (true, "") => words.next().map(String::as_str),
            (true, _) => Some(std::mem::take(&mut rest)),
        };
        if let Some(other) = take(asked, letter, &name, value)? {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

fn takes_value(letter: char) -> bool {
    "cdtsHTS".contains(letter)
}

/// The letter of a long option, which may be shortened.
fn long_option(name: &str) -> Result<char, Mistake> {
    let begun: Vec<_> = LONG.iter().filter(|(long, _)| long.starts_with(name) && !name.is_empty()).collect();
    match (LONG.iter().find(|(long, _)| *long == name), begun.as_slice()) {
        (Some((_, letter)), _) | (None, [(_, letter)]) => Ok(*letter),
        (None, []) => Err(Mistake::Unknown(format!("--{name}"))),
        (None, _) => Err(Mistake::Ambiguous(format!("--{name}"))),
    }
}

/// Takes an option; something else than a run, if it asks for that.
fn take(asked: &mut Arguments, letter: char, name: &str, value: Option<&str>) -> Result<Option<Asked>, Mistake> {
    if takes_value(letter) && value.is_none() {
        return Err(Mistake::Incomplete(name.to_owned()));
    }
    let value = value.unwrap_or_default();
    let given = || format!("{name} {value}");
    let count = |most: u64| {
        let count = count_of(value).filter(|count| (1..=most).contains(count));
        count.map(|count| count as u32).ok_or_else(|| Mistake::Count(given(), most))
    };
    let time =
        || seconds_of(value).filter(|time| (1..=SECONDS_MAX).contains(time)).ok_or_else(|| Mistake::Time(given()));
    match letter {
        'c' => asked.connections = count(CONNECTIONS_MAX)?,
        't' => asked.threads = count(THREADS_MAX)?,
        'd' => asked.duration_s = time()?,
        'T' => asked.timeout_s = time()?,
        'S' => asked.script_limit_s = time()?,
        's' => asked.script = Some(value.to_owned()),
        'H' => asked.headers.push(header(value).ok_or_else(|| Mistake::Header(value.to_owned()))?),
        'L' => asked.latency = true,
        'v' => return Ok(Some(Asked::Version)),
        _ => return Ok(Some(Asked::Help)),
    }
    Ok(None)
}

/// Name and value of a header; the original passes over those without a space behind the colon.
fn header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let is_token = |byte: u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte);
    let is_value = |byte: u8| byte >= b' ' && byte != 0x7f || byte == b'\t';
    (!name.is_empty() && name.bytes().all(is_token) && value.bytes().all(is_value))
        .then(|| (name.to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &str) -> Result<Asked, Mistake> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn run(line: &str) -> Arguments {
        match read(line) {
            Ok(Asked::Run(arguments)) => arguments,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_are_read_wherever_they_stand() {
        let plain = run("http://h/");
        assert_eq!((plain.connections, plain.threads, plain.duration_s, plain.timeout_s), (10, 2, 10, 2));
        let all = run("-t12 -c 1k http://h/ -d30s --lat --timeout=5s -s a.lua -HX-A:b -- x -y");
        assert_eq!((all.connections, all.threads, all.duration_s, all.timeout_s), (1000, 12, 30, 5));
        assert_eq!((all.latency, all.script.as_deref()), (true, Some("a.lua")));
        assert_eq!((all.headers, all.rest), (vec![("X-A".into(), "b".into())], vec!["x".to_owned(), "-y".into()]));
        assert_eq!(run("--script x --script-l 1m u -Lc4").script_limit_s, 60);
        assert_eq!(run("u more").rest, ["more"], "as the original, which takes what follows the URL");
        assert_eq!(
            (read("-v"), read("-h u"), read("--ver")),
            (Ok(Asked::Version), Ok(Asked::Help), Ok(Asked::Version))
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (line, told) in [
            ("", "the URL is missing"),
            ("-c 5 -t 6 u", "number of connections must be >= threads"),
            ("-c", "-c: a value belongs behind it"),
            ("-c x u", "-c x: not a count from 1 to 1000000"),
            ("-t 0 u", "-t 0: not a count from 1 to 256"),
            ("--duration 1.5s u", "--duration 1.5s: not a time"),
            ("-d0 u", "-d 0: not a time"),
            ("-H nothing u", "-H nothing: not a header"),
            ("-x u", "-x: there is no such option"),
            ("-S 3 u", "-S: there is no such option"),
            ("--bogus u", "--bogus: there is no such option"),
            ("--t 3 u", "--t: it may mean several options"),
            ("--latency=3 u", "--latency: the option takes no value"),
        ] {
            let error = read(line).expect_err(line).to_string();
            assert!(error.starts_with(told), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(words in prop::collection::vec("-{0,2}[a-zLHTé=]{0,8}[0-9kms]{0,3}", 0..8)) {
            if let Ok(Asked::Run(asked)) = parse(&words) {
                prop_assert!(asked.threads >= 1 && asked.connections >= asked.threads);
                prop_assert!((1..=SECONDS_MAX).contains(&asked.duration_s));
            }
        }
    }
}
