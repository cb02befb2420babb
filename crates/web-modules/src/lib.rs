//! Nothing: the modules are in C, in `native/apache` and `native/php`, and this crate's tests are what is here.
