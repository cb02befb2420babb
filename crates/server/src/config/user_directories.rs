//! Directories of the users of this machine, which `/~NAME` stands for.

use super::plain_file::read_file;
use super::scripts::HomeScripts;
use super::table::{Table, Value};
use crate::files::root::place::Place;
use crate::files::settings::Symlinks;
use crate::routing::routes::route::{Act, UserSite};
use crate::routing::rules::{Rules, SiteRules};
use crate::site::settings::SiteKind;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The users of this machine (passwd(5)).
const PASSWD: &str = "/etc/passwd";
const PASSWD_BYTES_MAX: u64 = 4 << 20;
/// Numbers of people: below them is root, and all that the system runs as; above them is who has no number, and who
/// is made for a time.
const UIDS: RangeInclusive<u32> = 1000..=59_999;
/// Users whose directories one route serves.
const USERS_MAX: usize = 1024;

/// A user who is a person.
#[derive(Debug, PartialEq, Eq)]
struct Person<'t> {
    name: &'t str,
    uid: u32,
    home: &'t str,
}

/// Opens the directories of all users that have one with this name in their home.
pub(super) fn read(table: &Table<'_, '_>, value: &Value<'_, '_>, kind: &SiteKind, rules: &mut Rules) -> Option<Act> {
    let folder = value.string()?;
    if folder.is_empty() || folder.contains(['/', '\0']) || folder.starts_with('.') {
        value.wrong(format!("\"{folder}\" is no name of a directory in a home"), "such as public_html");
        return None;
    }
    let scripts = HomeScripts::of(table, folder);
    let text = read_file(Path::new(PASSWD), PASSWD_BYTES_MAX).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.unwrap_or_default();
    let (mut sites, mut served) = (HashMap::new(), Vec::new());
    for person in people(&text) {
        // What a user links to may be what only the server may read.
        let symlinks = if kind.symlinks == Symlinks::Never { Symlinks::Never } else { Symlinks::Within };
        let how = SiteKind { root: PathBuf::from(person.home).join(folder), symlinks, ..kind.clone() };
        let place = match Place::open_of(&how.root, person.uid) {
            Ok(place) => place,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                let what = format!("{} is not served: {error}", how.root.display());
                value.doubt(what, format!("make it a directory of {}, and no link", person.name));
                continue;
            }
        };
        if sites.len() == USERS_MAX {
            value.wrong(
                format!("more than {USERS_MAX} users have a directory {folder}"),
                "serve some of them by [[host.path]] with a root",
            );
            return None;
        }
        let scripts = match &scripts {
            Some(scripts) => Some(scripts.enter(person.name, &how.root, rules)?),
            None => None,
        };
        sites.insert(person.name.as_bytes().to_vec(), UserSite { site: rules.sites.len(), scripts });
        served.push((person.name, person.uid, person.home, how.root.clone()));
        rules.sites.push(SiteRules { how, place });
    }
    if let Some(scripts) = &scripts {
        scripts.look(served.into_iter());
    }
    if sites.is_empty() {
        value.doubt(format!("no user has a directory {folder} in the home"), "make one, and reload the configuration");
        if scripts.is_some() {
            value.doubt(format!("no script of a user runs without a directory {folder}"), "make one, and reload");
        }
    }
    Some(Act::User { sites })
}

/// The users of a file that are people.
fn people(text: &str) -> impl Iterator<Item = Person<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid, _, _, home) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let uid = uid.parse().ok().filter(|uid| UIDS.contains(uid))?;
        let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
        let is_name = !name.is_empty() && name.bytes().all(is_plain) && !name.starts_with('.');
        let is_home = home.starts_with('/') && !home.trim_matches('/').is_empty();
        (is_name && is_home).then_some(Person { name, uid, home })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_what_the_system_runs_as_are_no_people() {
        let text = "root:x:0:0:root:/root:/bin/bash\nwww-data:x:33:33::/var/www:/sbin/nologin\n\
            anna:x:1000:1000:Anna,,,:/home/anna:/bin/bash\nnobody:x:65534:65534::/nonexistent:/sbin/nologin\n\
            bad:x:1001\n+nis::::::\n..:x:1002:1002::/home/x:/bin/sh\nslash:x:1003:1003::/:/bin/sh\n\
            second:x:0:0::/root:/bin/sh\nsystemd:x:61184:61184::/run/x:/bin/sh\nx/y:x:1004:1::/home/y:/bin/sh\n";
        let found: Vec<_> = people(text).collect();
        assert_eq!(found, [Person { name: "anna", uid: 1000, home: "/home/anna" }]);
    }
}
