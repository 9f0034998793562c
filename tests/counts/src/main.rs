//! One scene, played under callgrind by `tests/counts/run.py`: what users do most, over links that answer in the
//! same thread. Prints how many rounds were counted, and how many allocations they took.
//!
//! `quorlock-counts SCENE` plays one of [`scenes::SCENES`].

mod meter;
mod nodes;
mod scenes;
mod seams;
mod tasks;

use std::process::ExitCode;

fn main() -> ExitCode {
    let named = std::env::args().nth(1).unwrap_or_default();
    let scene = scenes::SCENES.iter().find(|scene| scene.name == named);
    let Some(scene) = scene else {
        let names: Vec<_> = scenes::SCENES.iter().map(|scene| scene.name).collect();
        eprintln!("which scene: {}", names.join(", "));
        return ExitCode::from(2);
    };
    let rounds = scene.play();
    println!("{rounds} {}", meter::allocations());
    ExitCode::SUCCESS
}
