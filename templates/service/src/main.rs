fn main() -> std::process::ExitCode {
    roundhouse::main({{crate_name}}::service())
}
