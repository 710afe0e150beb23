//! The table of figures, line by line as they come.

use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Report {
    failures: Vec<String>,
}

impl Report {
    pub(crate) fn says(&self, scenario: &str, measure: &str, figure: &str) {
        println!("| {scenario} | {measure} | {figure} | |");
    }

    pub(crate) fn seconds(
        &mut self,
        scenario: &str,
        measure: &str,
        took: Duration,
        most: Duration,
    ) {
        let figure = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        self.limited(scenario, measure, figure(took), figure(most), took <= most);
    }

    pub(crate) fn memory(&mut self, scenario: &str, measure: &str, kib: u64, most_mib: u64) {
        let figure = format!("{:.1} MiB", kib as f64 / 1024.0);
        let most = format!("{most_mib} MiB");
        self.limited(scenario, measure, figure, most, kib <= most_mib * 1024);
    }

    /// How many are missing, or wrong: there may be none.
    pub(crate) fn none(&mut self, scenario: &str, measure: &str, count: usize) {
        let figure = count.to_string();
        self.limited(scenario, measure, figure, "0".to_owned(), count == 0);
    }

    fn limited(&mut self, scenario: &str, measure: &str, figure: String, most: String, good: bool) {
        println!("| {scenario} | {measure} | {figure} | {most} |");
        if !good {
            let failure = format!("{scenario}: {measure}: {figure}, and the limit is {most}");
            self.failures.push(failure);
        }
    }

    pub(crate) fn verdict(&self) -> ExitCode {
        for failure in &self.failures {
            println!("\nfailed: {failure}");
        }
        ExitCode::from(u8::from(!self.failures.is_empty()))
    }
}
