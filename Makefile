# The commands of the README and of CONTRIBUTING.md.
.PHONY: run test operator ci bench deps lint docs soak fuzz linear scenarios envtest-assets

OPERATOR = integration-tests/operator/Cargo.toml

# Builds and runs the server on this machine: data in ./data, a kubeconfig in it.
run:
	cargo run --release -- --controllers='*'

# A folder for KUBEBUILDER_ASSETS: kube-apiserver, etcd, and kubectl if there is one (docs/envtest.md).
envtest-assets:
	tools/envtest-assets

# What the tests need beside Rust and a C compiler: etcd, kubectl.
deps:
	tools/install-test-deps

test: deps operator
	cargo test --workspace

# A kube-rs controller at work against the server: a workspace of its own, in the same target folder.
operator:
	CARGO_TARGET_DIR="$${CARGO_TARGET_DIR:-$(CURDIR)/target}" cargo test --manifest-path $(OPERATOR)

# The long form of the storage tests: hundreds of kills under load, of the store alone and of the server. With PROFILE=dev
# it takes less to build and more to run.
soak: PROFILE ?= release
soak: deps
	SOAK=1 cargo test --profile $(PROFILE) -p storage -p etcd-server
	cargo build --profile $(PROFILE)
	SOAK=1 cargo test --profile $(PROFILE) -p integration-tests --test suite durability:: -- --nocapture
	SOAK=1 cargo test --profile $(PROFILE) -p integration-tests --test suite envtest:: -- --nocapture --test-threads=1

# Each fuzzer for a minute, two at a time (needs a C++ compiler, no nightly).
fuzz:
	bash .ci/fuzz

# What the server promises, played alone.
scenarios:
	cargo build
	cargo test -p integration-tests --test suite scenarios::

# Whether the work of writes is linear in their lists (counts steps, not time).
linear:
	bash .ci/linear

lint:
	cargo fmt --all --check
	cargo fmt --manifest-path $(OPERATOR) --check
	cargo clippy --workspace --all-targets -- -D warnings
	CARGO_TARGET_DIR="$${CARGO_TARGET_DIR:-$(CURDIR)/target}" \
		cargo clippy --manifest-path $(OPERATOR) --all-targets -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

bench:
	cargo bench --workspace

ci:
	bash .ci/run
