//! The kube-apiserver binary.

fn main() -> std::process::ExitCode {
    kube_apiserver::main(std::env::args_os().skip(1))
}
