//! Which URI is asked next: one, those of a list, or those of a set of files.

/// Where URIs come from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Uris {
    /// Always the same.
    One(String),
    /// Those of a list, in order; from its begin again if it wraps.
    Log { list: Vec<String>, next: usize, wraps: bool },
    /// Those of a set of files (`--wset`).
    Set(FileSet),
}

/// Files of a tree by the digits of their numbers: `prefix/0/1/7.html`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileSet {
    prefix: String,
    files: u32,
    /// How many files each request goes on, and how far the next one has come.
    rate: f64,
    place: f64,
    file: u32,
    /// By how much a client goes on, so that clients together ask for all of them.
    step: u32,
}

impl FileSet {
    /// `files` of them below `prefix`, of which each request goes on by `rate`, for client `(number, all)`.
    pub(super) fn new(prefix: &str, files: u32, rate: f64, client: (u32, u32)) -> Self {
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix).to_owned();
        let files = files.max(1);
        Self { prefix, files, rate, place: 0.0, file: client.0 % files, step: client.1 % files }
    }

    fn next(&mut self) -> String {
        self.place += self.rate;
        if self.place >= 1.0 {
            self.place -= 1.0;
            self.file = (self.file + self.step) % self.files;
        }
        // As many digits as those of the largest number below a power of ten that covers the set.
        let digits = (0..).find(|digits| 10u64.pow(*digits) >= u64::from(self.files)).unwrap_or(10) as usize;
        let number = format!("{:0digits$}", self.file);
        let path: String =
            number.chars().take(if digits == 0 { 0 } else { usize::MAX }).flat_map(|digit| ['/', digit]).collect();
        format!("{}{path}.html", self.prefix)
    }
}

impl Uris {
    /// The next one; `None` when a list that does not wrap is over.
    pub(super) fn next(&mut self) -> Option<String> {
        match self {
            Self::One(uri) => Some(uri.clone()),
            Self::Set(set) => Some(set.next()),
            Self::Log { list, next, wraps } => {
                if *next == list.len() && *wraps {
                    *next = 0;
                }
                let uri = list.get(*next).cloned();
                *next += usize::from(uri.is_some());
                uri
            }
        }
    }

    /// Whether the original tells each when it is talkative.
    pub(super) fn are_told(&self) -> bool {
        !matches!(self, Self::One(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn next(uris: &mut Uris, count: usize) -> Vec<String> {
        (0..count).filter_map(|_| uris.next()).collect()
    }

    #[test]
    fn a_list_ends_or_wraps() {
        let list = vec!["/a".to_owned(), "/b".to_owned()];
        let mut log = Uris::Log { list: list.clone(), next: 0, wraps: false };
        assert_eq!(next(&mut log, 5), ["/a", "/b"]);
        let mut log = Uris::Log { list, next: 0, wraps: true };
        assert_eq!(next(&mut log, 5), ["/a", "/b", "/a", "/b", "/a"]);
    }

    #[test]
    fn a_set_is_walked_at_its_rate() {
        // As the original does: the 103rd file of 1024 is /wset1024/0/1/0/3.html.
        let mut set = FileSet::new("/wset1024", 1024, 0.25, (0, 1));
        set.file = 103;
        assert_eq!(set.next(), "/wset1024/0/1/0/3.html");
        let mut set = Uris::Set(FileSet::new("/", 101, 0.5, (0, 1)));
        assert_eq!(next(&mut set, 4), ["/0/0/0.html", "/0/0/1.html", "/0/0/1.html", "/0/0/2.html"]);
        let mut set = Uris::Set(FileSet::new("/s/", 4, 1.0, (1, 2)));
        assert_eq!(next(&mut set, 3), ["/s/3.html", "/s/1.html", "/s/3.html"]);
        assert_eq!(FileSet::new("/one", 1, 1.0, (0, 1)).next(), "/one.html");
    }

    proptest! {
        #[test]
        fn all_files_have_as_many_digits(files in 1u32..2000, rate in 0.0f64..=1.0, client in 0u32..5) {
            let mut set = FileSet::new("/x", files, rate, (client, 5));
            let length = set.next().len();
            for _ in 0..50 {
                prop_assert_eq!(set.next().len(), length);
                prop_assert!(set.file < files);
            }
        }
    }
}
