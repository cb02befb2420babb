//! How the shared library is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Programs that were linked with -larm ask for the library by this name, not by the name of the file.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libarm.so.2");
    // Unloading would take the code from under threads that end later and give their lanes back.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
