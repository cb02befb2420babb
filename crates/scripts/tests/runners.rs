//! Runners with real scripts, asked over FastCGI as the server asks them.
// scripts/test: waits

mod runners {
    mod attacks;
    mod cgi;
    mod cgiplus;
    mod client;
    mod costs;
    mod faults;
    mod owners;
    mod rte;
    mod runtimes;
}
