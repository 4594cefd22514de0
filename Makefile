# What one does with this tree. Each target installs what it needs, or says what to install.

TARGET = $(or $(CARGO_TARGET_DIR),target)

.PHONY: help demo test bench rates soak miri fuzz

help:
	@echo "make demo    real files behind a slow disk, cold and warm, in two minutes"
	@echo "make test    everything that must hold: format, lints, all tests, on real mounts"
	@echo "make bench   measures beside bindfs, rclone and zfs-fuse; results in docs/benchmarks.md"
	@echo "make rates   replays all traces through all policies; results in docs/hit-rates.md"
	@echo "make soak    the random tests for an hour, with new seeds"
	@echo "make miri    the unsafe code in Miri, with 16 interleavings of its threads"
	@echo "make fuzz    fuzzes for five minutes, from where the last run ended"

demo:
	@scripts/setup demo
	@cargo build --release --locked --package warmfront-cli
	@$(TARGET)/release/warmfront demo

test:
	@scripts/setup test
	@scripts/test

bench:
	@scripts/setup bench
	@cargo build --release --locked --package warmfront-cli --package warmfront-bench
	@$(TARGET)/release/warmfront-bench --plots docs
	@$(TARGET)/release/engine-hits
	@$(TARGET)/release/cache-hits --rounds 3 --plot docs/cache-hits.svg
	@$(TARGET)/release/shrink --plot docs/shrink.svg
	@$(TARGET)/release/lab-speed --plot docs/lab-speed.svg

rates:
	@cargo build --release --locked --package warmfront-cli
	@scripts/hit-rates

soak:
	@scripts/setup test
	@scripts/soak

miri:
	@scripts/miri 16

fuzz:
	@scripts/fuzz 300
