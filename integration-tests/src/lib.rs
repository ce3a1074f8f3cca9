//! Black-box tests over HTTPS, with real clients
