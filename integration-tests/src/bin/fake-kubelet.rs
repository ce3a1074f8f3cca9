//! The kubelet of the tests as a process: `fake-kubelet [PORT]`. It runs whatever command it is asked for.

use std::thread;

fn main() {
    let port = std::env::args().nth(1).map_or(0, |port| port.parse().expect("a port"));
    let kubelet = integration_tests::Kubelet::start(port);
    println!("{}", kubelet.port());
    loop {
        thread::park();
    }
}
