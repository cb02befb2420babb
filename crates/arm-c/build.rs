//! The name under which programs find the library, and that it stays once it is loaded: a thread's end, or the
//! program's, calls into it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libarm4.so.4");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rerun-if-changed=build.rs");
}
