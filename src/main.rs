//! The kube-apiserver binary.

/// Gives memory back to the system when a load is over: its own threads look after that, whether the server has something to
/// do or not. The C library's allocator keeps the most that there ever was.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    kube_apiserver::main(std::env::args_os().skip(1))
}
