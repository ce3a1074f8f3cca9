//! Makes the messages and services of `proto` (with the protoc that .cargo/config.toml names, as etcd-client does).

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=proto");
    let files = ["proto/etcd.proto", "proto/lock.proto", "proto/election.proto"];
    tonic_prost_build::configure().build_client(false).bytes(".").compile_protos(&files, &["proto"])
}
