//! The workloads over mimalloc.

#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    pools_bench::serve();
}
