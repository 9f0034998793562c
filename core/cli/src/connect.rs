//! From connection options to a client.

use std::fs::File;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quorlock::{Client, defaults};

use crate::exit::{self, Failure};
use crate::flags::SetFlags;
use crate::given;

/// The longest file of nodes that is read, in bytes: a device has no end.
const LONGEST: u64 = 1 << 20;

/// A client with these options; `label`: what others see of it.
pub fn client(options: &SetFlags, label: Option<String>) -> Result<Client, Failure> {
    let wrong = |e: quorlock::Error| Failure::new(exit::CONFIG, given::by_flags(&e));
    let nodes = named(options)?;
    let builder = || match &nodes {
        NodesSource::ByOption(nodes) => Client::builder().nodes(nodes),
        NodesSource::ByFile(nodes, path) => Client::builder().nodes_of_file(nodes.clone(), path),
        NodesSource::Elsewhere => Client::builder(),
    };
    // First without the rest of what stands on the command line: what is wrong then is wrong with the nodes.
    let bare = || options.credentials_on(builder());
    bare().build().map_err(wrong)?;
    let client = options.on(bare());
    let client = match label {
        Some(label) => client.label(label),
        None => client,
    };
    Ok(client.build()?)
}

/// Where the nodes' names come from.
enum NodesSource {
    /// The user, by `--nodes-file`.
    ByOption(Vec<String>),
    /// The file of this path, where neither that nor the environment has.
    ByFile(Vec<String>, &'static str),
    /// The environment, or none of these.
    Elsewhere,
}

fn named(options: &SetFlags) -> Result<NodesSource, Failure> {
    if let Some(path) = &options.nodes_file {
        let shown = format!("the nodes file ({})", given::file(path));
        return nodes_of(read(path), &shown).map(NodesSource::ByOption);
    }
    if is_in_environment() {
        return Ok(NodesSource::Elsewhere);
    }
    for path in usual_files() {
        let text = match read(&path) {
            // Neither it nor its folder is there.
            Err(e) if matches!(e.kind(), NotFound | NotADirectory) => continue,
            // A file that is there and cannot be read is not passed over: the next may be of
            // another set.
            text => text,
        };
        let path = path.display().to_string();
        let nodes = nodes_of(text, &format!("the nodes file {path}"))?;
        // One for each client of this program, which has one.
        return Ok(NodesSource::ByFile(nodes, path.leak()));
    }
    Ok(NodesSource::Elsewhere)
}

/// Whether the variable names any node, or what cannot be read, which its reader says.
fn is_in_environment() -> bool {
    let variable = std::env::var_os(defaults::NODES_VARIABLE).unwrap_or_default();
    let splits = |c: &u8| c.is_ascii_whitespace() || *c == b',';
    !variable.as_bytes().iter().all(splits)
}

/// Where a file of nodes may stand: its user's, and the system's.
fn usual_files() -> Vec<PathBuf> {
    let folder = |name: &str| {
        let folder = std::env::var_os(name).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    let users = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    users
        .into_iter()
        .chain(["/etc".into()])
        .map(|folder| folder.join("quorlock/nodes"))
        .collect()
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(LONGEST + 1)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// The nodes that a file names; `shown`: which file.
fn nodes_of(text: io::Result<String>, shown: &str) -> Result<Vec<String>, Failure> {
    let wrong = |why: String| Failure::new(exit::CONFIG, format!("{shown} {why}"));
    let text = text.map_err(|e| wrong(format!("cannot be read: {e}")))?;
    if text.len() as u64 > LONGEST {
        return Err(wrong("is longer than any list of nodes".into()));
    }
    let nodes = urls(&text);
    if nodes.is_empty() {
        return Err(wrong(format!(
            "names no node: give one URL a line, as in {}",
            defaults::NODES_VARIABLE
        )));
    }
    Ok(nodes)
}

fn urls(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split([',', ' ', '\t']))
        .filter(|url| !url.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_file_has_urls_and_notes() {
        let text = "# ours\nredis://a, redis://b\n\n  # old: redis://x\r\nredis://c#1\r\n";
        assert_eq!(urls(text), ["redis://a", "redis://b", "redis://c#1"]);
    }
}
