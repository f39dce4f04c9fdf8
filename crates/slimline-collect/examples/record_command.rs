//! The least that records a command: `record_command OUTPUT COMMAND…`. What the tests of this crate run.
//!
//! Prints nothing but errors, so that what is seen is the target's. `record_command --doctor [PROGRAM]` shows what this
//! machine and a program allow.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use slimline_collect::{RecordOptions, doctor, record, run_stall_kernel};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    match first.to_str() {
        Some("--stall-kernel") => {
            let microseconds = arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(20_000);
            match run_stall_kernel(Duration::from_micros(microseconds)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Some("--doctor") => {
            println!("{:#?}", doctor(arguments.next().as_ref(), &stall_kernel()));
            ExitCode::SUCCESS
        }
        _ => {
            // Tests want many samples of short programs.
            let period_ns = Some(1_000_000);
            let mut options =
                RecordOptions { output: first.into(), period_ns, ..RecordOptions::new(arguments.collect()) };
            if env::var_os("CALIBRATE").is_some() {
                options.calibration = stall_kernel();
            }
            run(&options)
        }
    }
}

/// This program, as the kernel of the calibration.
fn stall_kernel() -> Vec<OsString> {
    env::current_exe().into_iter().map(OsString::from).chain([OsString::from("--stall-kernel")]).collect()
}

fn run(options: &RecordOptions) -> ExitCode {
    match record(options) {
        Ok(outcome) => {
            if let Some(why) = &outcome.info.stopped_early {
                eprintln!("record_command: {why}");
            }
            outcome.exit()
        }
        Err(error) => {
            eprintln!("record_command: {error}");
            ExitCode::from(2)
        }
    }
}
