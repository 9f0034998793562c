//! `quorlock run` at a terminal, in a shell with job control. `program/terminal.py` types.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

use quorlock_tests::Stage;

fn scene(name: &str) {
    let stage = Stage::new(3);
    let program = env!("CARGO_BIN_EXE_quorlock");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/terminal.py");
    let mut command = Command::new("python3");
    command.arg(script).args([program, name]);
    command.env("QUORLOCK_NODES", stage.nodes.join(","));
    command.env("QUORLOCK_NODE_TIMEOUT", "1s");
    let output = command.output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}");
}

#[test]
fn ctrl_z_gives_the_terminal_back_and_keeps_the_lock() {
    scene("keys");
}

#[test]
fn a_command_in_the_background_keeps_its_lock() {
    scene("background");
}

#[test]
fn ctrl_z_ends_a_wait_until_it_goes_on() {
    scene("waiting");
}

#[test]
fn a_program_that_is_killed_at_a_terminal_leaves_nothing() {
    scene("killed");
}

#[test]
fn a_command_that_stops_by_itself_gives_the_terminal_back() {
    scene("alone");
}

#[test]
fn one_under_another_stops_and_goes_on_with_it() {
    scene("nested");
}

#[test]
fn where_the_terminal_goes_nothing_is_left() {
    scene("closed");
}

#[test]
fn a_script_at_a_terminal_stops_as_a_whole() {
    scene("scripts");
}
