//! `dbtick` with what the crash test plants in it. Never shipped.

fn main() -> std::process::ExitCode {
    dbtick::cli::main()
}
