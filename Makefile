# The commands of the README and of CONTRIBUTING.md.
.PHONY: run test ci bench deps lint docs soak fuzz

# Builds and runs the server on this machine: data in ./data, a kubeconfig in it.
run:
	cargo run --release

# What the tests need beside Rust and a C compiler: etcd, kubectl.
deps:
	tools/install-test-deps

test: deps
	cargo test --workspace

# The long form of the storage tests: hundreds of kills under load.
soak: deps
	SOAK=1 cargo test --release -p storage

# Each fuzzer for a minute, two at a time (needs a C++ compiler, no nightly).
fuzz:
	bash .ci/fuzz

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

bench:
	cargo bench --workspace

ci:
	bash .ci/run
