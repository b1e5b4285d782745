//! The workloads over the C library's allocator, which is Rust's default.

fn main() {
    pools_bench::serve();
}
