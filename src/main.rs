fn main() -> std::process::ExitCode {
    dbtick::cli::main()
}
