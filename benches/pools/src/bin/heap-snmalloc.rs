//! The workloads over snmalloc.

#[global_allocator]
static HEAP: snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc;

fn main() {
    pools_bench::serve();
}
