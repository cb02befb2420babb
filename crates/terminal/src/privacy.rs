//! What is kept is redacted: queries, header values and bodies may hold secrets.

/// This process's command line, redacted, for a run's manifest.
pub fn command_line() -> Vec<String> {
    redacted(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()))
}

/// A target or URL without its query; that there was one stays visible.
pub fn without_query(target: &str) -> String {
    match target.split_once('?') {
        Some((path, _)) => format!("{path}?(redacted)"),
        None => target.to_owned(),
    }
}

/// Options whose value may be a secret as a whole: the addresses of webhooks have their key in the path.
const SECRET: [&str; 6] = ["--header", "--body", "--webhook", "--user", "--bearer", "--cookie"];

fn redacted(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut hide_next = false;
    arguments
        .map(|argument| {
            let hide = std::mem::replace(&mut hide_next, SECRET.contains(&argument.as_str()));
            let attached = argument.split_once('=').filter(|(option, _)| SECRET.contains(option));
            match attached {
                _ if hide => "(redacted)".to_owned(),
                Some((option, _)) => format!("{option}=(redacted)"),
                None if is_bundle_with_header(&argument) => {
                    let header = argument.find('H').unwrap_or(1);
                    // `-qH` takes its value from the next argument, `-qHName: value` has it attached.
                    hide_next = argument.len() == header + 1;
                    if hide_next { argument } else { format!("{}(redacted)", &argument[..=header]) }
                }
                None if argument.contains("://") => without_user(&without_query(&argument)),
                None => argument,
            }
        })
        .collect()
}

/// Short options in one word, of which one is `-H`: a header and its value.
fn is_bundle_with_header(argument: &str) -> bool {
    argument.strip_prefix('-').is_some_and(|bundle| {
        let flags: String = bundle.chars().take_while(char::is_ascii_alphabetic).collect();
        !bundle.starts_with('-') && flags.contains('H')
    })
}

/// A URL without `user:password@`.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    match authority.rsplit_once('@') {
        Some((user, _)) => format!("{scheme}://(redacted){}", &rest[user.len()..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_kept() {
        let line = [
            "weir",
            "load",
            "-H",
            "Cookie: a=1",
            "--body=secret",
            "-HX: 2",
            "http://me:pw@host:80/x?token=3",
            "-c",
            "4",
            "--webhook",
            "https://h/services/key1",
            "--webhook=https://h/services/key2",
            "--proxy",
            "http://me:p%2fw@proxy:80",
            "--proxy=socks5h://me:pw@proxy:1080",
            "--user",
            "me:pw",
            "--bearer=token",
            "--cookie",
            "session=4",
        ];
        let kept = redacted(line.iter().map(|&argument| argument.to_owned()));
        assert_eq!(
            kept,
            [
                "weir",
                "load",
                "-H",
                "(redacted)",
                "--body=(redacted)",
                "-H(redacted)",
                "http://(redacted)@host:80/x?(redacted)",
                "-c",
                "4",
                "--webhook",
                "(redacted)",
                "--webhook=(redacted)",
                "--proxy",
                "http://(redacted)@proxy:80",
                "--proxy=socks5h://(redacted)@proxy:1080",
                "--user",
                "(redacted)",
                "--bearer=(redacted)",
                "--cookie",
                "(redacted)"
            ]
        );
    }
}
