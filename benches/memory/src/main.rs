//! Pool, ring and session table against their peers, in paired rounds.

fn main() {
    println!("processor time so far: {:?}", paired::process_time());
}
