//! What comes from the directory of a cluster.

use weir_directory::Manifest;

/// A manifest that is read has one text only, no path that leads out of its tree, and is what its files make.
pub fn directory_manifest(input: &[u8]) {
    let head = b"weir-manifest 1\n";
    let with_head = [&head[..], input].concat();
    for text in [input, &with_head] {
        let Ok(manifest) = Manifest::from_text(text) else { continue };
        assert_eq!(manifest.to_text().as_bytes(), text);
        for file in manifest.entries() {
            assert!(file.path.split('/').all(|part| !part.is_empty() && part != "." && part != ".."));
            assert_eq!(manifest.file(&file.path), Some(file));
        }
        assert_eq!(Manifest::new(manifest.entries().to_vec()), Ok(manifest));
    }
}
