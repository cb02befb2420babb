//! Functions of a program of Go by their names: its runtime's own table (`.gopclntab`), which stays where the symbols were
//! stripped. The layout is that of Go 1.18 and later (runtime/symtab.go, `pcHeader`).

/// First bytes of the table: since Go 1.20, and of Go 1.18 and 1.19.
const MAGIC: [u32; 2] = [0xffff_fff1, 0xffff_fff0];
/// Places in its head: how large a pointer is, how many functions there are, where their instructions begin, and where in
/// the table names and functions are.
const POINTER_BYTES: usize = 7;
const COUNT: usize = 8;
const TEXT: usize = 24;
const NAMES: usize = 32;
const FUNCTIONS: usize = 64;
/// Functions that are looked at; a large program has some 200,000.
const MOST_FUNCTIONS: usize = 1 << 21;

/// The addresses of the functions of these names; `text` is where the program's instructions begin, which the table may
/// leave open.
#[must_use]
pub fn go_functions<const N: usize>(table: &[u8], text: u64, names: [&str; N]) -> [Option<u64>; N] {
    let mut found = [None; N];
    let _ = look(table, text, &names, &mut found);
    found
}

fn look(table: &[u8], text: u64, names: &[&str], found: &mut [Option<u64>]) -> Option<()> {
    if !MAGIC.contains(&half(table, 0)?) || *table.get(POINTER_BYTES)? != 8 {
        return None;
    }
    let count = usize::try_from(word(table, COUNT)?).ok()?.min(MOST_FUNCTIONS);
    let begin = word(table, TEXT).filter(|begin| *begin != 0).unwrap_or(text);
    let texts = table.get(usize::try_from(word(table, NAMES)?).ok()?..)?;
    let functions = table.get(usize::try_from(word(table, FUNCTIONS)?).ok()?..)?;
    for index in 0..count {
        let at = half(functions, 8 * index + 4)? as usize;
        let (entry, name) = (half(functions, at)?, half(functions, at.checked_add(4)?)? as usize);
        let Some(text) = texts.get(name..) else { continue };
        let of = |name: &&str| text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
        if let Some(one) = names.iter().position(of) {
            found[one] = begin.checked_add(u64::from(entry));
        }
    }
    Some(())
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A table of functions, each 16 bytes behind the one before.
    fn table(begin: u64, names: &[&str]) -> Vec<u8> {
        let mut texts = Vec::new();
        let mut places = Vec::new();
        for name in names {
            places.push(texts.len() as u32);
            texts.extend_from_slice(name.as_bytes());
            texts.push(0);
        }
        let names_at = 72;
        let functions_at = names_at + texts.len();
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC[0].to_le_bytes());
        out.extend_from_slice(&[0, 0, 1, 8]);
        for number in [names.len() as u64, 0, begin, names_at as u64, 0, 0, 0, functions_at as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&texts);
        let entries = 8 * names.len() + 4;
        for index in 0..names.len() {
            out.extend_from_slice(&(16 * index as u32).to_le_bytes());
            out.extend_from_slice(&((entries + 8 * index) as u32).to_le_bytes());
        }
        out.extend_from_slice(&[0; 4]);
        for (index, place) in places.iter().enumerate() {
            out.extend_from_slice(&(16 * index as u32).to_le_bytes());
            out.extend_from_slice(&place.to_le_bytes());
        }
        out
    }

    #[test]
    fn functions_are_found_by_their_whole_names() {
        let names = ["main.main", "crypto/tls.(*Conn).ReadFrom", "crypto/tls.(*Conn).Read"];
        let asked = ["crypto/tls.(*Conn).Read", "crypto/tls.(*Conn).Write"];
        assert_eq!(go_functions(&table(0x1000, &names), 0, asked), [Some(0x1020), None]);
        // Since Go 1.26 it does not say where the instructions begin.
        assert_eq!(go_functions(&table(0, &names), 0x40_0000, asked), [Some(0x40_0020), None]);
        let mut other = table(0x1000, &names);
        other[0] = 0;
        assert_eq!(go_functions(&other, 0, asked), [None; 2]);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), whole: bool, at in 0usize..120, byte: u8) {
            if whole {
                bytes = table(1, &["a", "b"]);
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let _ = go_functions(&bytes, u64::MAX, ["a", "b"]);
        }
    }
}
