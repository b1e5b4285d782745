//! The workloads over the C library's allocator, which Rust takes where nothing else is said.

fn main() {
    memory_bench::serve();
}
