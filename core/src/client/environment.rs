//! The environment variables from which a client takes what the program does not give.

use std::collections::BTreeMap;
use std::env::{VarError, var};

use crate::config::defaults::NODES_VARIABLE;
use crate::error::Error;

/// What of an environment is read.
#[derive(Clone, Debug)]
pub(super) enum Environment {
    /// That of the process.
    Own,
    /// The environment that a language keeps apart from the process's.
    Given(BTreeMap<String, String>),
}

impl Environment {
    /// What a variable says; nothing where it is not set, or empty.
    pub(super) fn get(&self, name: &str) -> Result<Option<String>, Error> {
        let said = match self {
            Environment::Given(all) => all.get(name).cloned(),
            Environment::Own => match var(name) {
                Ok(said) => Some(said),
                Err(VarError::NotPresent) => None,
                Err(VarError::NotUnicode(_)) => return Err(not_text(name)),
            },
        };
        match said {
            // Languages that decode it put these in the place of what they cannot.
            Some(said) if said.contains('\u{fffd}') => Err(not_text(name)),
            said => Ok(said.filter(|said| !said.is_empty())),
        }
    }
}

fn not_text(name: &str) -> Error {
    let remedy = match name {
        NODES_VARIABLE => ": give URLs, with %XX for other bytes",
        _ => "",
    };
    Error::invalid(format!(
        "the environment variable {name} is not UTF-8{remedy}"
    ))
}
