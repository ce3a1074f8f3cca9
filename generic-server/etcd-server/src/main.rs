//! The `etcd` binary.

/// Gives memory back to the system when a load is over.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    etcd_server::main(std::env::args().skip(1))
}
