//! `quorlock completions` and `quorlock man`: made from the command line that there is.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Args, Completions, Manual};
use crate::exit::{self, Failure};
use crate::given;

pub fn completions(options: &Completions) -> Result<i32, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Args::command(), "quorlock", &mut text);
    print(&text)
}

/// The page of one command, or all of them into a folder.
pub fn manual(options: &Manual) -> Result<i32, Failure> {
    let mut args = Args::command();
    args.build();
    if let Some(folder) = &options.dir {
        let parts = args
            .get_subcommands()
            .filter(|part| part.get_name() != "help");
        for (name, command) in [("quorlock".to_owned(), &args)]
            .into_iter()
            .chain(parts.map(|part| (format!("quorlock-{}", part.get_name()), part)))
        {
            let path = folder.join(format!("{name}.1"));
            write(&path, &page(command, &name)?).map_err(|e| cannot(&path, &e))?;
        }
        return Ok(0);
    }
    let text = match &options.command {
        None => page(&args, "quorlock")?,
        Some(name) => {
            let wrong = || {
                Failure::new(
                    exit::USAGE,
                    format!(
                        "there is no such command: it is {}",
                        given::shown("command", name)
                    ),
                )
            };
            let command = args.find_subcommand(name).ok_or_else(wrong)?;
            page(command, &format!("quorlock-{name}"))?
        }
    };
    print(&text)
}

fn page(command: &Command, name: &str) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let man = Man::new(command.clone()).title(name.to_uppercase());
    let broken = |e: io::Error| Failure::new(exit::BUG, format!("the page of {name}: {e}"));
    man.render(&mut text).map_err(broken)?;
    Ok(text)
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    File::create(path)?.write_all(text)
}

fn print(text: &[u8]) -> Result<i32, Failure> {
    // The reader may have seen enough and gone.
    let _ = io::stdout().write_all(text);
    Ok(0)
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        exit::USAGE,
        format!(
            "the page cannot be written ({}): {error}",
            given::file(path)
        ),
    )
}
